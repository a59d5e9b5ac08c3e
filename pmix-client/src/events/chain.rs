//! The order in which a process's handlers run. Pure: knows names and places, no events.

use pmix_types::Status;
use pmix_types::message::Failure;

use super::placement::{Order, Placement};

/// The handlers of a process from the first to the last.
#[derive(Debug, Default)]
pub(crate) struct Chain(Vec<Link>);

#[derive(Debug)]
struct Link {
    id: u64,
    name: String,
    category: Category,
    /// At one end of its category, whoever comes.
    pin: Option<Pin>,
}

/// Categories in the order they run (EVT-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Category {
    First,
    Single,
    Multi,
    Default,
    Last,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pin {
    First,
    Last,
}

impl Chain {
    /// Inserts a handler at its place in the chain.
    ///
    /// # Errors
    /// `ERR_EVENT_REGISTRATION` if the name or the place is taken, or if it is to stand beside a handler that is not
    /// there, is of another category, or stands at the end of its own.
    pub(crate) fn insert(&mut self, id: u64, codes: usize, placement: &Placement) -> Result<(), Failure> {
        let Placement { name, order } = placement;
        if !name.is_empty() && self.0.iter().any(|link| link.name == *name) {
            return refused(format!("there is a handler named {name:?} already"));
        }
        let category = match (order, codes) {
            (Order::First, _) => Category::First,
            (Order::Last, _) => Category::Last,
            (_, 0) => Category::Default,
            (_, 1) => Category::Single,
            _ => Category::Multi,
        };
        let pin = match order {
            Order::FirstInCategory => Some(Pin::First),
            Order::LastInCategory => Some(Pin::Last),
            _ => None,
        };
        let at = self.place(category, order)?;
        self.0.insert(at, Link { id, name: name.clone(), category, pin });
        Ok(())
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.0.retain(|link| link.id != id);
    }

    /// How many run before this one.
    pub(crate) fn position(&self, id: u64) -> usize {
        self.0.iter().position(|link| link.id == id).unwrap_or(self.0.len())
    }

    fn place(&self, category: Category, order: &Order) -> Result<usize, Failure> {
        let start = self.0.partition_point(|link| link.category < category);
        let end = self.0.partition_point(|link| link.category <= category);
        let peers = self.0.get(start..end).unwrap_or_default();
        let has_first = peers.first().is_some_and(|link| link.pin == Some(Pin::First));
        let has_last = peers.last().is_some_and(|link| link.pin == Some(Pin::Last));
        // an empty name stands for no handler: many have none
        let is_it = |link: &Link, name: &str| !name.is_empty() && link.name == name;
        let beside = |name: &String| match peers.iter().position(|link| is_it(link, name)) {
            Some(index) => Ok(index),
            None if self.0.iter().any(|link| is_it(link, name)) => {
                refused(format!("handler {name:?} is of another category"))
            }
            None => refused(format!("there is no handler {name:?}")),
        };
        match order {
            Order::First if !peers.is_empty() => refused("there is a first handler already"),
            Order::Last if !peers.is_empty() => refused("there is a last handler already"),
            Order::First | Order::Last => Ok(start),
            Order::FirstInCategory if has_first => refused("the category has a first handler already"),
            Order::FirstInCategory => Ok(start),
            Order::LastInCategory if has_last => refused("the category has a last handler already"),
            Order::LastInCategory => Ok(end),
            Order::Front => Ok(start + usize::from(has_first)),
            Order::Back => Ok(end - usize::from(has_last)),
            Order::Before(name) => match beside(name)? {
                0 if has_first => refused(format!("handler {name:?} must stay the first of its category")),
                index => Ok(start + index),
            },
            Order::After(name) => match start + beside(name)? + 1 {
                next if next == end && has_last => {
                    refused(format!("handler {name:?} must stay the last of its category"))
                }
                next => Ok(next),
            },
        }
    }
}

fn refused<T>(message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::new(Status::ERR_EVENT_REGISTRATION, message))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn order(chain: &Chain) -> Vec<u64> {
        chain.0.iter().map(|link| link.id).collect()
    }

    fn placement(name: &str, order: Order) -> Placement {
        Placement { name: name.into(), order }
    }

    /// Handlers by number of codes and place, numbered from 1 and named by their numbers.
    fn chain_of(handlers: impl IntoIterator<Item = (usize, Order)>) -> Chain {
        let mut chain = Chain::default();
        for (id, (codes, order)) in (1..).zip(handlers) {
            chain.insert(id, codes, &placement(&id.to_string(), order)).unwrap();
        }
        chain
    }

    #[track_caller]
    fn refused(chain: &mut Chain, codes: usize, place: &Placement) {
        let before = order(chain);
        let failure = chain.insert(99, codes, place).unwrap_err();
        assert_eq!(failure.status, Status::ERR_EVENT_REGISTRATION, "{failure}");
        assert_eq!(order(chain), before);
    }

    #[test]
    fn evt_01_categories_run_in_their_order() {
        let chain = chain_of([
            (0, Order::Last),
            (0, Order::Front),
            (2, Order::Front),
            (1, Order::Front),
            (1, Order::First),
        ]);
        assert_eq!(order(&chain), [5, 4, 3, 2, 1]);
    }

    #[test]
    fn evt_02a_new_handlers_go_in_front_of_their_category() {
        let chain = chain_of([
            (1, Order::Front),
            (1, Order::Front),
            (1, Order::Back),
            (3, Order::Front),
            (2, Order::Back),
            (5, Order::Front),
        ]);
        assert_eq!(order(&chain), [2, 1, 3, 6, 4, 5]);
    }

    #[test]
    fn evt_02b_each_category_has_one_first_and_one_last() {
        let mut chain = chain_of([
            (1, Order::FirstInCategory),
            (1, Order::LastInCategory),
            (1, Order::Front),
            (1, Order::Back),
            (0, Order::LastInCategory),
            (0, Order::Back),
        ]);
        assert_eq!(order(&chain), [1, 3, 4, 2, 6, 5]);
        refused(&mut chain, 1, &placement("", Order::FirstInCategory));
        refused(&mut chain, 1, &placement("", Order::LastInCategory));
        refused(&mut chain, 0, &placement("", Order::LastInCategory));
        chain.remove(1);
        chain.insert(7, 1, &placement("", Order::FirstInCategory)).unwrap();
        assert_eq!(order(&chain), [7, 3, 4, 2, 6, 5]);
    }

    #[test]
    fn evt_03_there_is_one_first_and_one_last_and_the_place_gets_free() {
        let mut chain = chain_of([(1, Order::First), (0, Order::Last)]);
        refused(&mut chain, 0, &placement("", Order::First));
        refused(&mut chain, 2, &placement("", Order::Last));
        chain.remove(1);
        chain.insert(3, 0, &placement("", Order::First)).unwrap();
        chain.remove(2);
        chain.insert(4, 0, &placement("", Order::Last)).unwrap();
        assert_eq!(order(&chain), [3, 4]);
    }

    #[test]
    fn evt_04_before_and_after_another_of_the_category() {
        let mut chain = chain_of([
            (1, Order::Front),
            (1, Order::Back),
            (1, Order::Before("2".into())),
            (1, Order::After("1".into())),
            (0, Order::First),
            (0, Order::Front),
        ]);
        assert_eq!(order(&chain), [5, 1, 4, 3, 2, 6]);
        refused(&mut chain, 1, &placement("", Order::Before("unknown".into())));
        refused(&mut chain, 1, &placement("", Order::After("6".into())));
        chain.insert(7, 1, &placement("", Order::Front)).unwrap();
        refused(&mut chain, 1, &placement("", Order::Before("".into())));
        refused(&mut chain, 1, &placement("", Order::After("".into())));
        refused(&mut chain, 0, &placement("", Order::After("5".into())));
    }

    #[test]
    fn evt_04_nobody_gets_before_the_first_or_after_the_last_of_a_category() {
        let mut chain =
            chain_of([(1, Order::FirstInCategory), (1, Order::LastInCategory), (0, Order::FirstInCategory)]);
        refused(&mut chain, 1, &placement("", Order::Before("1".into())));
        refused(&mut chain, 1, &placement("", Order::After("2".into())));
        chain.insert(4, 1, &placement("", Order::After("1".into()))).unwrap();
        chain.insert(5, 1, &placement("", Order::Before("2".into()))).unwrap();
        chain.insert(6, 0, &placement("", Order::After("3".into()))).unwrap();
        assert_eq!(order(&chain), [1, 4, 5, 2, 3, 6]);
    }

    #[test]
    fn evt_05_names_are_given_once() {
        let mut chain = chain_of([(1, Order::Front)]);
        refused(&mut chain, 0, &placement("1", Order::Front));
        for id in [2, 3] {
            chain.insert(id, 1, &placement("", Order::Front)).unwrap();
        }
        chain.remove(1);
        chain.insert(4, 0, &placement("1", Order::Front)).unwrap();
    }

    #[derive(Clone, Debug)]
    enum Action {
        Insert { codes: usize, order: u8, beside: u8, named: bool },
        Remove(u8),
    }

    fn action() -> impl Strategy<Value = Action> {
        prop_oneof![
            4 => (0..3usize, 0..8u8, any::<u8>(), any::<bool>())
                .prop_map(|(codes, order, beside, named)| Action::Insert { codes, order, beside, named }),
            1 => any::<u8>().prop_map(Action::Remove),
        ]
    }

    proptest! {
        #[test]
        fn evt_01_evt_02a_evt_03_evt_04_evt_05_no_schedule_breaks_the_order(actions in prop::collection::vec(action(), 0..40)) {
            let mut chain = Chain::default();
            for (id, action) in (1u64..).zip(actions) {
                let before = order(&chain);
                match action {
                    Action::Remove(index) => {
                        if let Some(gone) = before.get(usize::from(index) % before.len().max(1)) {
                            chain.remove(*gone);
                            prop_assert_eq!(order(&chain), before.iter().copied().filter(|id| id != gone).collect::<Vec<_>>());
                        }
                    }
                    Action::Insert { codes, order: place, beside, named } => {
                        let name = chain.0.get(usize::from(beside) % before.len().max(1)).map(|link| link.name.clone());
                        let beside = name.clone().unwrap_or_default();
                        let place = match place {
                            0 => Order::Front,
                            1 => Order::Back,
                            2 => Order::First,
                            3 => Order::Last,
                            4 => Order::FirstInCategory,
                            5 => Order::LastInCategory,
                            6 => Order::Before(beside.clone()),
                            _ => Order::After(beside.clone()),
                        };
                        let own = if named { id.to_string() } else { String::new() };
                        let is_in = chain.insert(id, codes, &placement(&own, place.clone())).is_ok();
                        let after = order(&chain);
                        let others: Vec<_> = after.iter().copied().filter(|other| *other != id).collect();
                        prop_assert_eq!(&others, &before, "those who were there keep their order");
                        prop_assert_eq!(is_in, after.contains(&id));
                        if is_in && !beside.is_empty() {
                            let neighbour = chain.0.iter().position(|link| link.name == beside).unwrap();
                            match place {
                                Order::Before(_) => prop_assert_eq!(chain.position(id) + 1, neighbour),
                                Order::After(_) => prop_assert_eq!(neighbour + 1, chain.position(id)),
                                _ => {}
                            }
                        }
                    }
                }
                prop_assert!(chain.0.is_sorted_by_key(|link| link.category));
                for category in [Category::First, Category::Last] {
                    prop_assert!(chain.0.iter().filter(|link| link.category == category).count() <= 1);
                }
                for pair in chain.0.windows(2).filter(|pair| pair[0].category == pair[1].category) {
                    prop_assert_ne!(pair[1].pin, Some(Pin::First));
                    prop_assert_ne!(pair[0].pin, Some(Pin::Last));
                }
                let mut names: Vec<_> = chain.0.iter().map(|link| &link.name).filter(|name| !name.is_empty()).collect();
                let count = names.len();
                names.sort();
                names.dedup();
                prop_assert_eq!(names.len(), count);
            }
        }
    }
}
