use std::fmt;

use pmix_types::message;
use pmix_types::{Directives, FabricOperation, Info, ValueType, keys};

use super::builder::builder;
use crate::client::Client;
use crate::core::Core;
use crate::error::{Error, key_name};
use pmix_types::KeyOf;

/// A fabric known to the host: its devices and their distances.
///
/// The host holds no registration: dropping the value is enough.
///
/// # Standard
/// `pmix_fabric_t`, `PMIx_Fabric_deregister`
#[derive(Clone)]
#[doc(alias = "pmix_fabric_t")]
#[doc(alias = "PMIx_Fabric_deregister")]
#[doc(alias = "PMIx_Fabric_deregister_nb")]
pub struct Fabric {
    core: Core,
    /// Which fabric was asked for.
    directives: Directives,
    infos: Directives,
}

impl Client {
    /// Registers for a fabric, to read what the host knows about it; await the builder.
    #[doc(alias = "PMIx_Fabric_register")]
    #[doc(alias = "PMIx_Fabric_register_nb")]
    pub fn register_fabric(&self) -> FabricBuilder {
        FabricBuilder::new(self.draft(message::Fabric::new(FabricOperation::REQUEST_INFO)))
    }
}

builder! {
    /// A request about a fabric. Await it to send it. See [`Client::register_fabric`](crate::Client::register_fabric).
    ///
    /// If no name, vendor or plane is given, the host chooses a fabric.
    ///
    /// # Examples
    /// ```
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use pmix_client::keys;
    ///
    /// let mut fabric = client.register_fabric().identifier("ib0").await?;
    /// println!("{:?} devices", fabric.get(keys::FABRIC_NUM_DEVICES)?);
    /// // after an event that the fabric has changed
    /// fabric.update().await?;
    /// # Ok(())
    /// # }
    /// #
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// # let alone = pmix_client::Client::singleton().await?;
    /// # let refused = example(alone.clone()).await.unwrap_err();
    /// # assert_eq!(refused.status(), pmix_client::Status::ERR_UNREACH);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_SUPPORTED` if the host does not serve fabrics, errors of the host, `ERR_TIMEOUT`,
    /// `ERR_UNREACH` for a singleton, [`Error::Lost`], `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Safe: the reply is dropped.
    FabricBuilder(message::Fabric) -> Fabric
}

impl FabricBuilder {
    /// Selects the fabric with this name.
    #[doc(alias = "PMIX_FABRIC_IDENTIFIER")]
    pub fn identifier(self, name: impl Into<String>) -> Self {
        self.directive(keys::FABRIC_IDENTIFIER, name)
    }

    /// Selects a fabric of this vendor.
    #[doc(alias = "PMIX_FABRIC_VENDOR")]
    pub fn vendor(self, name: impl Into<String>) -> Self {
        self.directive(keys::FABRIC_VENDOR, name)
    }

    /// Selects the fabric with this plane.
    #[doc(alias = "PMIX_FABRIC_PLANE")]
    pub fn plane(self, id: impl Into<String>) -> Self {
        self.directive(keys::FABRIC_PLANE, id)
    }

    async fn ask(self) -> Result<Fabric, Error> {
        let (core, request) = self.draft.online(Self::OPERATION)?;
        let directives = request.directives.clone();
        let infos = core.call(request).await?.into();
        Ok(Fabric { core, directives, infos })
    }
}

impl Fabric {
    /// The host's number for the fabric; `None` if it has none.
    #[doc(alias = "PMIX_FABRIC_INDEX")]
    pub fn index(&self) -> Option<u64> {
        self.get(keys::FABRIC_INDEX).ok().flatten()
    }

    /// A value of the fabric, such as `FABRIC_NUM_DEVICES`; `None` if the host did not provide it.
    ///
    /// # Errors
    /// [`Error::Value`] for a value of another type.
    pub fn get<T: ValueType>(&self, key: impl KeyOf<T>) -> Result<Option<T>, Error> {
        let key = key.into_key_name().map_err(key_name("fabric"))?;
        let read = |value: &pmix_types::Value| value.get().map_err(|error| Error::value(key.clone(), error));
        self.infos.get_value(&key).map(read).transpose()
    }

    /// All infos from the host, in its order.
    pub fn infos(&self) -> &[Info] {
        self.infos.as_slice()
    }

    /// Requests the values again and replaces the old ones. When they change, the host raises the event
    /// `FABRIC_UPDATED`.
    ///
    /// # Errors
    /// Those of [`Client::register_fabric`](crate::Client::register_fabric); the old values stay.
    ///
    /// # Cancel safety
    /// Safe: the reply is dropped, and the old values stay.
    #[doc(alias = "PMIx_Fabric_update")]
    #[doc(alias = "PMIx_Fabric_update_nb")]
    pub async fn update(&mut self) -> Result<(), Error> {
        let mut request = message::Fabric::new(FabricOperation::UPDATE_INFO);
        request.directives = self.directives.clone();
        if let Some(index) = self.index() {
            request.directives.push(Info::new(&keys::FABRIC_INDEX, index));
        }
        self.infos = self.core.call(request).await?.into();
        Ok(())
    }
}

impl fmt::Debug for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fabric").field("infos", &self.infos).finish_non_exhaustive()
    }
}
