//! Who may see the page: whoever has the token, by the name of the page.

use std::fmt;

use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Bytes of a token that nobody guesses.
const BYTES: usize = 32;

/// What a browser must show to be told anything.
pub(super) struct Token(String);

impl Token {
    pub(super) fn draw() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Whether these headers have it. The time that this takes tells nothing of it.
    fn is_in(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        shown.is_some_and(|shown| constant_time_eq::constant_time_eq(shown, self.0.as_bytes()))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Bytes of the name of a page.
const NAME_BYTES: usize = 10;

/// The name of a page, another one each time: a page of another user, which has had this port before, may have left a program in the
/// browser that reads all that is sent to its address, and the token with it.
///
/// Browsers know that names below `localhost` mean their own host.
pub(super) struct Name(String);

impl Name {
    pub(super) fn draw() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; NAME_BYTES];
        getrandom::fill(&mut bytes)?;
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self(format!("{digits}.localhost")))
    }

    /// Whether a request came by this name, at any port: it may have been passed on from another one.
    fn is_in(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let named = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
        named.is_some_and(|named| named.host().eq_ignore_ascii_case(&self.0))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A refusal, with its reason.
pub(super) type Refusal = (StatusCode, &'static str);

/// # Errors
/// The request did not come by the name of the page.
pub(super) fn check_name(headers: &HeaderMap, name: &Name) -> Result<(), Refusal> {
    let why = "the Host header does not name the page: open the address that `pmix web` has printed";
    if name.is_in(headers) { Ok(()) } else { Err((StatusCode::FORBIDDEN, why)) }
}

/// Whether a request has the token.
///
/// # Errors
/// It has not.
pub(super) fn check_token(headers: &HeaderMap, token: &Token) -> Result<(), Refusal> {
    let why = "the token is missing or wrong: open the address that `pmix web` has printed";
    if token.is_in(headers) { Ok(()) } else { Err((StatusCode::UNAUTHORIZED, why)) }
}

#[cfg(test)]
mod tests {
    use axum::http::header::{COOKIE, HeaderName};

    use super::*;

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn each_page_has_another_name_and_answers_to_no_other() {
        let name = Name::draw().unwrap();
        let text = name.to_string();
        assert_ne!(text, Name::draw().unwrap().to_string());
        for right in [text.clone(), format!("{text}:8000"), text.to_uppercase()] {
            assert!(check_name(&with(HOST, &right), &name).is_ok(), "{right}");
        }
        for wrong in
            ["localhost", "127.0.0.1:8000", "[::1]", "evil.example", &text[1..], &format!("a.{text}")]
        {
            assert_eq!(
                check_name(&with(HOST, wrong), &name).unwrap_err().0,
                StatusCode::FORBIDDEN,
                "{wrong}"
            );
        }
        assert!(check_name(&HeaderMap::new(), &name).is_err());
        let mut two = with(HOST, &text);
        two.append(HOST, "evil.example".parse().unwrap());
        assert!(check_name(&two, &name).is_err());
    }

    #[test]
    fn only_the_whole_token_counts_and_each_is_another() {
        let token = Token::draw().unwrap();
        let text = token.to_string();
        assert!(text.len() >= 43 && text != Token::draw().unwrap().to_string());
        assert!(check_token(&with(AUTHORIZATION, &format!("Bearer {text}")), &token).is_ok());
        let wrong = [
            text.clone(),
            "Bearer ".to_owned(),
            format!("Bearer {}", &text[1..]),
            format!("Bearer {text}x"),
            format!("Bearer {}", text.to_lowercase() + "A"),
            format!("Basic {text}"),
        ];
        for wrong in wrong {
            let refused = check_token(&with(AUTHORIZATION, &wrong), &token).unwrap_err();
            assert_eq!(refused.0, StatusCode::UNAUTHORIZED, "{wrong}");
        }
        // other ports of this host get the same cookies
        assert!(check_token(&with(COOKIE, &format!("token={text}")), &token).is_err());
        assert!(check_token(&HeaderMap::new(), &token).is_err());
    }
}
