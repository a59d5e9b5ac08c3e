//! Who may see the page: whoever has the token, by an address of this host.

use std::fmt;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pmix_program::loopback::{NOT_THIS_HOST, names_this_host};

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

/// A refusal, with its reason.
pub(super) type Refusal = (StatusCode, &'static str);

/// # Errors
/// The request did not come by an address of this host.
pub(super) fn check_host(headers: &HeaderMap) -> Result<(), Refusal> {
    if names_this_host(headers) { Ok(()) } else { Err((StatusCode::FORBIDDEN, NOT_THIS_HOST)) }
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
