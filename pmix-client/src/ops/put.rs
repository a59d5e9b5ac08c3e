use pmix_types::message::{Failure, PutEntry};
use pmix_types::{AnyKey, Info, KeyName, ProcId, QualifiedValue, Scope, Status, Value};

use crate::client::Client;
use crate::core::Core;
use crate::error::{Error, key_name};

impl Client {
    /// Stores a value under a key of this process; [`Client::commit`] makes it visible to others.
    ///
    /// Putting a key again replaces its value and scope (PUT-04). Until the commit only this process sees it
    /// (PUT-05), and with [`Scope::INTERNAL`] also after it.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a reserved or invalid key (PUT-02), `ERR_NOT_SUPPORTED` for a scope other than local,
    /// remote, global and internal (PUT-03), `ERR_INIT` after finalize.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// use pmix_client::types::{Scope, keys};
    ///
    /// let client = pmix_client::Client::singleton().await?;
    /// client.put(Scope::GLOBAL, "endpoint", "10.0.0.1:7000")?;
    /// client.put(Scope::GLOBAL, "address", vec![10u8, 0, 0, 1])?;
    /// let address: Vec<u8> = client.get(None, "address").await?;
    /// assert_eq!(address, [10, 0, 0, 1]);
    /// assert!(client.put(Scope::GLOBAL, keys::JOB_SIZE, 3u32).is_err());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Put")]
    pub fn put(&self, scope: Scope, key: impl AnyKey, value: impl Into<Value>) -> Result<(), Error> {
        let core = self.core();
        let key = checked(&core, scope, key)?;
        core.store_mut().put(PutEntry::new(scope, key, value.into()));
        Ok(())
    }

    /// Puts a value that only a get with equal [qualifiers](crate::GetBuilder::qualifier) returns. A process can put several
    /// under one key, beside one without qualifiers.
    ///
    /// # Errors
    /// As [`put`](Self::put), and `ERR_BAD_PARAM` without qualifiers and if the key and its qualifiers, as text, are longer than
    /// a key may be.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// use pmix_client::types::{Info, Scope, keys};
    ///
    /// let client = pmix_client::Client::singleton().await?;
    /// let of = |group: u64| Info::new(&keys::GROUP_CONTEXT_ID, group);
    /// client.put_qualified(Scope::GLOBAL, "id", 107, [of(7)])?;
    /// client.put_qualified(Scope::GLOBAL, "id", 108, [of(8)])?;
    /// assert_eq!(client.get::<i32>(None, "id").qualifier(of(8)).await?, 108);
    /// assert!(client.get::<i32>(None, "id").await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Standard
    /// None; `PMIX_QUALIFIED_VALUE` of OpenPMIx 4.2.
    #[doc(alias = "PMIX_QUALIFIED_VALUE")]
    pub fn put_qualified(
        &self,
        scope: Scope,
        key: impl AnyKey,
        value: impl Into<Value>,
        qualifiers: impl IntoIterator<Item = Info>,
    ) -> Result<(), Error> {
        let core = self.core();
        let key = checked(&core, scope, key)?;
        let qualified = QualifiedValue::new(key.clone(), value.into(), qualifiers);
        if qualified.qualifiers.is_empty() {
            return Err(Error::bad_param(PUT, "there are no qualifiers").about(None, Some(&key)));
        }
        let name = qualified.name().map_err(|error| {
            Error::bad_param(PUT, format!("with its qualifiers, {error}")).about(None, Some(&key))
        })?;
        core.store_mut().put(PutEntry::new(scope, name, qualified));
        Ok(())
    }

    /// Stores a value under any process id, for this process only: it is never sent anywhere (PUT-09).
    ///
    /// Reserved keys are allowed (PUT-10), so that a get can find information that the process obtained in some other
    /// way.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for an invalid key and for an id that names no process, `ERR_INIT` after finalize.
    #[doc(alias = "PMIx_Store_internal")]
    pub fn store_internal(
        &self,
        proc: impl Into<ProcId>,
        key: impl AnyKey,
        value: impl Into<Value>,
    ) -> Result<(), Error> {
        const OPERATION: &str = "store internal";
        let (core, proc) = (self.core(), proc.into());
        core.check()?;
        let key = key.into_key_name().map_err(key_name(OPERATION))?;
        if !proc.is_valid() {
            let error = Error::bad_param(OPERATION, "the id names no process");
            return Err(error.about(Some(&proc), Some(&key)));
        }
        core.store_mut().store_internal(proc, key, value.into());
        Ok(())
    }
}

const PUT: &str = "put";

fn checked(core: &Core, scope: Scope, key: impl AnyKey) -> Result<KeyName, Error> {
    core.check()?;
    let key = key.into_key_name().map_err(key_name(PUT))?;
    if key.is_reserved() {
        let problem = "keys that start with \"pmix\" are for hosts and libraries";
        return Err(Error::bad_param(PUT, problem).about(None, Some(&key)));
    }
    if QualifiedValue::is_name(&key) || key.claim().is_some() {
        let problem = "such keys are names under which libraries store values";
        return Err(Error::bad_param(PUT, problem).about(None, Some(&key)));
    }
    if ![Scope::LOCAL, Scope::REMOTE, Scope::GLOBAL, Scope::INTERNAL].contains(&scope) {
        let problem = format!("no values can be put in scope {scope}");
        let failure = Failure::new(Status::ERR_NOT_SUPPORTED, problem);
        return Err(Error::failed(PUT, failure).about(None, Some(&key)));
    }
    Ok(key)
}
