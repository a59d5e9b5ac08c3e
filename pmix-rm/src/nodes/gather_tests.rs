//! Gatherings under schedules that a seed decides: messages of different edges overtake each other, callers give up, nodes die.

use std::collections::VecDeque;

use proptest::prelude::*;
use proptest::test_runner::TestRng;

use super::*;

/// What is on its way on an edge, in order.
#[derive(Debug)]
enum Message {
    Part(Part),
    Outcome(String, Vec<Place>, Outcome),
    Lost(Place),
}

struct World {
    nodes: Vec<Option<Gathering>>,
    edges: BTreeMap<(Place, Place), VecDeque<Message>>,
    /// What callers have been told.
    told: Vec<(Place, String, Outcome)>,
    degree: usize,
    messages: Vec<(usize, usize)>,
}

impl World {
    fn new(count: usize, degree: usize) -> Self {
        Self {
            nodes: (0..count).map(|me| Some(Gathering::new(me, count, degree))).collect(),
            edges: BTreeMap::new(),
            told: Vec::new(),
            degree,
            messages: vec![(0, 0); count],
        }
    }

    fn parent(&self, node: Place) -> Place {
        (node - 1) / self.degree
    }

    fn act(&mut self, node: Place, acts: Vec<Act>) {
        for act in acts {
            let (to, message) = match act {
                Act::Ready { operation, outcome } => {
                    self.told.push((node, operation, outcome));
                    continue;
                }
                Act::Up(part) => (self.parent(node), Message::Part(part)),
                Act::Down { to, operation, nodes, outcome } => {
                    (to, Message::Outcome(operation, nodes, outcome))
                }
            };
            self.messages[node].0 += 1;
            self.messages[to].1 += 1;
            self.edges.entry((node, to)).or_default().push_back(message);
        }
    }

    fn with(&mut self, node: Place, what: impl FnOnce(&mut Gathering) -> Vec<Act>) {
        if let Some(gathering) = &mut self.nodes[node] {
            let acts = what(gathering);
            self.act(node, acts);
        }
    }

    /// Delivers the first message of an edge; false if none is on its way.
    fn step(&mut self, choice: usize) -> bool {
        self.edges.retain(|_, messages| !messages.is_empty());
        if self.edges.is_empty() {
            return false;
        }
        let edge = *self.edges.keys().nth(choice % self.edges.len()).unwrap();
        let message = self.edges.get_mut(&edge).unwrap().pop_front().unwrap();
        let to = edge.1;
        match message {
            Message::Part(part) => self.with(to, |gathering| gathering.take(part)),
            Message::Outcome(operation, nodes, outcome) => {
                self.with(to, |gathering| gathering.outcome(&operation, &nodes, outcome));
            }
            Message::Lost(node) => self.lose(to, node),
        }
        true
    }

    /// A node hears that another is lost, and those below it hear of it next.
    fn lose(&mut self, hearer: Place, node: Place) {
        self.with(hearer, |gathering| gathering.lose(node));
        for child in children(self.degree, self.nodes.len(), hearer) {
            self.edges.entry((hearer, child)).or_default().push_back(Message::Lost(node));
        }
    }

    /// A node dies with all below it, and the root declares it lost.
    fn kill(&mut self, node: Place) {
        for below in 0..self.nodes.len() {
            if is_below(self.degree, below, node) {
                self.nodes[below] = None;
                // nobody hears one that was declared lost
                self.edges.retain(|(from, _), _| *from != below);
            }
        }
        self.lose(0, node);
    }
}

fn run(seed: u64, count: usize, degree: usize, operations: usize, faults: bool) -> World {
    let mut rng = TestRng::from_seed(prop::test_runner::RngAlgorithm::ChaCha, &{
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes
    });
    let mut world = World::new(count, degree);
    let mut plans = Vec::new();
    for number in 0..operations {
        let mut nodes: Vec<Place> = (0..count).filter(|_| rng.random_bool(0.6)).collect();
        if nodes.is_empty() {
            nodes.push(rng.random_range(0..count));
        }
        for node in &nodes {
            plans.push((*node, format!("op {number}"), nodes.clone()));
        }
    }
    let mut entered = Vec::new();
    while !plans.is_empty() || !world.edges.is_empty() {
        match rng.random_range(0..10) {
            0..=3 if !plans.is_empty() => {
                let (node, operation, nodes) = plans.swap_remove(rng.random_range(0..plans.len()));
                let data = Bytes::from(format!("{node} of {operation}"));
                world.with(node, |gathering| gathering.enter(&operation, &nodes, data));
                entered.push((node, operation, nodes));
            }
            4 if faults && rng.random_bool(0.2) && !entered.is_empty() => {
                let (node, operation, _) = entered[rng.random_range(0..entered.len())].clone();
                if !world.told.iter().any(|(by, of, _)| *by == node && *of == operation)
                    && world.nodes[node].is_some()
                {
                    world.with(node, |gathering| gathering.give_up(&operation));
                    world.told.push((node, operation, Outcome::GivenUp(node)));
                }
            }
            5 if faults && count > 1 && rng.random_bool(0.05) => {
                let node = rng.random_range(1..count);
                if world.nodes[node].is_some() {
                    world.kill(node);
                }
            }
            _ => {
                world.step(rng.random_range(0..usize::MAX));
            }
        }
    }
    check(&world, &entered);
    world
}

fn check(world: &World, entered: &[(Place, String, Vec<Place>)]) {
    for (node, operation, nodes) in entered {
        let told: Vec<_> = world.told.iter().filter(|(by, of, _)| by == node && of == operation).collect();
        if world.nodes[*node].is_none() {
            assert!(told.len() <= 1, "{node} {operation}: {told:?}");
            continue;
        }
        let [(.., outcome)] = told[..] else { panic!("{node} {operation}: told {told:?}") };
        if let Outcome::Complete(data) = outcome {
            let expected: Vec<_> =
                nodes.iter().map(|node| Bytes::from(format!("{node} of {operation}"))).collect();
            assert_eq!(*data, expected);
        }
    }
    for (node, gathering) in world.nodes.iter().enumerate() {
        let Some(gathering) = gathering else { continue };
        assert_eq!(gathering.len(), 0, "{node} remembers {:?}", gathering.operations);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_participant_is_answered_once_whatever_the_schedule(
        seed: u64, count in 1_usize..20, degree in 1_usize..5, operations in 1_usize..8,
    ) {
        run(seed, count, degree, operations, true);
    }

    #[test]
    fn without_faults_every_operation_is_complete(seed: u64, count in 1_usize..64, degree in prop_oneof![Just(2_usize), Just(32)]) {
        let world = run(seed, count, degree, 3, false);
        prop_assert!(world.told.iter().all(|(.., outcome)| matches!(outcome, Outcome::Complete(_))));
    }
}

#[test]
fn an_operation_of_all_takes_a_node_one_message_on_each_edge_both_ways() {
    for (count, degree) in [(10, 2), (100, 32), (1000, 32), (2000, 32)] {
        let mut world = World::new(count, degree);
        let nodes: Vec<Place> = (0..count).collect();
        for node in 0..count {
            world.with(node, |gathering| gathering.enter("fence", &nodes, Bytes::new()));
        }
        while world.step(0) {}
        assert_eq!(world.told.len(), count);
        assert!(world.messages.iter().all(|(sent, received)| *sent <= degree + 1 && *received <= degree + 1));
    }
}

#[test]
fn a_node_that_comes_late_hears_that_it_was_given_up_and_nothing_is_kept() {
    let mut world = World::new(3, 2);
    let nodes = [0, 1, 2];
    world.with(1, |gathering| gathering.enter("op", &nodes, "1".into()));
    world.with(1, |gathering| gathering.give_up("op"));
    while world.step(0) {}
    for node in [0, 2] {
        world.with(node, |gathering| gathering.enter("op", &nodes, "late".into()));
        while world.step(0) {}
    }
    let told: Vec<_> = world.told.iter().map(|(node, _, outcome)| (*node, outcome.clone())).collect();
    assert_eq!(told, [(0, Outcome::GivenUp(1)), (2, Outcome::GivenUp(1))]);
    assert!(world.nodes.iter().flatten().all(|gathering| gathering.len() == 0));
}

#[test]
fn an_operation_that_brings_too_much_is_given_up_for_all() {
    let mut world = World::new(3, 2);
    let nodes = [0, 1, 2];
    let much = Bytes::from(vec![0; MAX_GATHERED / 2 + 1]);
    for node in nodes {
        world.with(node, |gathering| gathering.enter("op", &nodes, much.clone()));
    }
    while world.step(0) {}
    let mut told: Vec<_> = world.told.iter().map(|(node, _, outcome)| (*node, outcome.clone())).collect();
    told.sort_by_key(|(node, _)| *node);
    assert_eq!(told, nodes.map(|node| (node, Outcome::GivenUp(0))));
    assert!(world.nodes.iter().flatten().all(|gathering| gathering.len() == 0));
}
