use pmix_types::message::Failure;
use pmix_types::{Directives, Status, keys};

/// The place that a handler asks for in the chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Empty for none.
    pub(crate) name: String,
    pub(crate) order: Order,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// In front of its category, as handlers are by default (EVT-02).
    #[default]
    Front,
    Back,
    First,
    Last,
    FirstInCategory,
    LastInCategory,
    /// Before the handler of this name.
    Before(String),
    /// After the handler of this name.
    After(String),
}

impl Placement {
    /// Whether a place is asked for that must be given (GEN-05).
    pub(crate) fn is_required(directives: &Directives) -> bool {
        let mut required: Directives = directives.iter().filter(|info| info.is_required()).cloned().collect();
        let count = required.len();
        Self::take(&mut required).is_err() || required.len() < count
    }

    /// Reads the directives that say where a handler stands and removes them: they are not the server's concern.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for directives that exclude each other (GEN-07) and for those of the wrong type.
    pub(crate) fn take(directives: &mut Directives) -> Result<Self, Failure> {
        let name = directives.get(&keys::EVENT_HDLR_NAME)?.unwrap_or_default();
        let flags = [
            (&keys::EVENT_HDLR_FIRST, Order::First),
            (&keys::EVENT_HDLR_LAST, Order::Last),
            (&keys::EVENT_HDLR_FIRST_IN_CATEGORY, Order::FirstInCategory),
            (&keys::EVENT_HDLR_LAST_IN_CATEGORY, Order::LastInCategory),
            (&keys::EVENT_HDLR_PREPEND, Order::Front),
            (&keys::EVENT_HDLR_APPEND, Order::Back),
        ];
        let mut orders = Vec::new();
        for (key, order) in flags {
            orders.extend(directives.flag(key)?.then_some(order));
            directives.remove(key);
        }
        orders.extend(directives.get(&keys::EVENT_HDLR_BEFORE)?.map(Order::Before));
        orders.extend(directives.get(&keys::EVENT_HDLR_AFTER)?.map(Order::After));
        for key in [&keys::EVENT_HDLR_NAME, &keys::EVENT_HDLR_BEFORE, &keys::EVENT_HDLR_AFTER] {
            directives.remove(key);
        }
        // it is for the closure to hold what C programs pass with the registration (EVT-22)
        directives.remove(&keys::EVENT_RETURN_OBJECT);
        if orders.len() > 1 {
            let message = format!("a handler can have only one place, but these are given: {orders:?}");
            return Err(Failure::new(Status::ERR_BAD_PARAM, message));
        }
        Ok(Self { name, order: orders.pop().unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gen_07a_gen_07b_evt_22_a_handler_asks_for_one_place() {
        let mut directives = Directives::new()
            .with(&keys::EVENT_HDLR_NAME, "n")
            .with(&keys::EVENT_HDLR_APPEND, true)
            .with(&keys::EVENT_HDLR_FIRST, false)
            .with(&keys::EVENT_RETURN_OBJECT, "stays here")
            .with(&keys::TIMEOUT, 3);
        let placement = Placement::take(&mut directives).unwrap();
        assert_eq!(placement, Placement { name: "n".into(), order: Order::Back });
        assert_eq!(directives, Directives::new().with(&keys::TIMEOUT, 3));

        assert_eq!(Placement::take(&mut Directives::new()).unwrap(), Placement::default());
        let wrong = [
            Directives::new().with(&keys::EVENT_HDLR_FIRST, true).with(&keys::EVENT_HDLR_LAST, true),
            Directives::new().with(&keys::EVENT_HDLR_BEFORE, "a").with(&keys::EVENT_HDLR_AFTER, "b"),
            Directives::new().with(&keys::EVENT_HDLR_NAME, "a").with(&keys::EVENT_HDLR_NAME, "b"),
        ];
        for mut directives in wrong {
            assert_eq!(Placement::take(&mut directives).unwrap_err().status, Status::ERR_BAD_PARAM);
        }
    }
}
