//! Gatherings under schedules that a seed decides: messages of different edges overtake each other, connections break and lose
//! what is on its way, callers give up, nodes die and are declared lost at different times.

use std::collections::VecDeque;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

use super::*;

/// What is on its way to a node.
#[derive(Clone, Debug)]
enum Message {
    Part(Part),
    /// A part of which more comes.
    Piece(Part),
    Outcome(String, Arc<[Place]>, Outcome),
    /// Data of an outcome that comes.
    Foretold(String, Arc<[Place]>, Vec<(Place, Bytes)>),
    /// The head declares this node lost.
    Lost(Place),
}

/// The head declares losses, and is no node of the tree.
const JUDGE: Place = usize::MAX;

struct World {
    nodes: Vec<Option<Gathering>>,
    /// In order on each edge.
    edges: BTreeMap<(Place, Place), VecDeque<Message>>,
    /// Edges with messages, once for each message.
    ready: Vec<(Place, Place)>,
    /// Requests that are made again when a connection breaks: parts until their outcome has come, and outcomes that were sent
    /// unasked until they have arrived.
    unanswered: BTreeMap<(Place, Place, String), Message>,
    /// What callers have been told.
    told: Vec<(Place, String, Outcome)>,
    dead: BTreeSet<Place>,
    messages: Vec<(usize, usize)>,
    bytes: usize,
    /// The data of each node comes in a message of its own.
    is_in_pieces: bool,
}

impl World {
    fn new(count: usize, degree: usize) -> Self {
        Self {
            nodes: (0..count).map(|me| Some(Gathering::new(me, degree))).collect(),
            edges: BTreeMap::new(),
            ready: Vec::new(),
            unanswered: BTreeMap::new(),
            told: Vec::new(),
            dead: BTreeSet::new(),
            messages: vec![(0, 0); count],
            bytes: 0,
            is_in_pieces: false,
        }
    }

    fn act(&mut self, node: Place, acts: Vec<Act>) {
        for act in acts {
            let (to, message) = match act {
                Act::Ready { operation, outcome } => {
                    self.told.push((node, operation, outcome));
                    continue;
                }
                Act::Up { to, part } => (to, Message::Part(part)),
                Act::Down { to, operation, members, outcome } => {
                    (to, Message::Outcome(operation, members, outcome))
                }
            };
            assert_ne!(to, node);
            let (name, is_request) = match &message {
                Message::Part(part) => (&part.operation, true),
                Message::Outcome(operation, ..) => {
                    (operation, !self.unanswered.contains_key(&(to, node, operation.clone())))
                }
                other => unreachable!("{other:?}"),
            };
            if is_request {
                let request = merged(self.unanswered.get(&(node, to, name.clone())), &message);
                self.unanswered.insert((node, to, name.clone()), request);
            }
            self.messages[node].0 += 1;
            self.messages[to].1 += 1;
            self.bytes += match &message {
                Message::Part(Part { data, .. }) | Message::Outcome(.., Outcome::Complete(data)) => {
                    data.iter().map(|(_, data)| data.len()).sum()
                }
                _ => 0,
            };
            self.say(node, to, message);
        }
    }

    fn say(&mut self, from: Place, to: Place, message: Message) {
        let pieces = if self.is_in_pieces { in_pieces(message) } else { vec![message] };
        pieces.into_iter().for_each(|piece| self.send(from, to, piece));
    }

    fn send(&mut self, from: Place, to: Place, message: Message) {
        self.edges.entry((from, to)).or_default().push_back(message);
        self.ready.push((from, to));
    }

    fn with(&mut self, node: Place, what: impl FnOnce(&mut Gathering) -> Vec<Act>) {
        if let Some(gathering) = &mut self.nodes[node] {
            let acts = what(gathering);
            self.act(node, acts);
        }
    }

    /// Delivers the first message of an edge; false if none is on its way.
    fn step(&mut self, choice: usize) -> bool {
        if self.ready.is_empty() {
            return false;
        }
        let (from, to) = self.ready.swap_remove(choice % self.ready.len());
        // it may have been lost
        let Some(message) = self.edges.get_mut(&(from, to)).and_then(VecDeque::pop_front) else {
            return true;
        };
        if let Message::Outcome(operation, ..) = &message {
            self.unanswered.remove(&(to, from, operation.clone()));
            if let Some(Message::Outcome(..)) = self.unanswered.get(&(from, to, operation.clone())) {
                self.unanswered.remove(&(from, to, operation.clone()));
            }
        }
        self.with(to, |gathering| match message {
            Message::Part(part) => {
                assert!(gathering.is_sound(from, &part), "{from} {part:?}");
                gathering.take(from, part)
            }
            Message::Piece(part) => {
                assert!(gathering.is_sound(from, &part), "{from} {part:?}");
                let mut acts = gathering.take(from, part);
                acts.retain(|act| !matches!(act, Act::Down { to, .. } if *to == from));
                acts
            }
            Message::Outcome(operation, members, outcome) => {
                gathering.outcome(from, &operation, &members, outcome)
            }
            Message::Foretold(operation, members, data) => {
                gathering.foretell(from, &operation, &members, data);
                Vec::new()
            }
            Message::Lost(node) => gathering.lose(node),
        });
        true
    }

    /// A node dies: some of what it has sent arrives before it is declared lost, the end of it never.
    fn kill(&mut self, node: Place, mut arrives: impl FnMut(usize) -> usize) {
        self.nodes[node] = None;
        self.dead.insert(node);
        for ((from, _), messages) in &mut self.edges {
            if *from == node {
                messages.truncate(arrives(messages.len() + 1));
            }
        }
        for hearer in 0..self.nodes.len() {
            self.send(JUDGE, hearer, Message::Lost(node));
        }
    }

    /// A connection breaks, and is made again: what was on its way is lost from some message on, and requests come again.
    fn cut(&mut self, edge: (Place, Place), mut arrives: impl FnMut(usize) -> usize) {
        for (from, to) in [edge, (edge.1, edge.0)] {
            if let Some(messages) = self.edges.get_mut(&(from, to)) {
                messages.truncate(arrives(messages.len() + 1));
            }
            let again = self.unanswered.iter().filter(|((by, with, _), _)| (*by, *with) == (from, to));
            let again: Vec<_> = again.map(|(_, message)| message.clone()).collect();
            for message in again {
                self.say(from, to, message);
            }
        }
    }
}

/// The same with the data of each node in a message of its own.
fn in_pieces(message: Message) -> Vec<Message> {
    let each = |data: &[(Place, Bytes)]| data.iter().map(|one| vec![one.clone()]).collect::<Vec<_>>();
    match message {
        Message::Part(part) => {
            let mut pieces = each(&part.data);
            let last = Message::Part(Part { data: pieces.pop().unwrap_or_default(), ..part.clone() });
            let pieces = pieces.into_iter().map(|data| Message::Piece(Part { data, ..part.clone() }));
            pieces.chain([last]).collect()
        }
        Message::Outcome(operation, members, Outcome::Complete(data)) => {
            let mut pieces = each(&data);
            let rest = Outcome::Complete(pieces.pop().unwrap_or_default());
            let last = Message::Outcome(operation.clone(), members.clone(), rest);
            let pieces =
                pieces.into_iter().map(|data| Message::Foretold(operation.clone(), members.clone(), data));
            pieces.chain([last]).collect()
        }
        other => vec![other],
    }
}

/// A part that says what two of the same operation say.
fn merged(before: Option<&Message>, message: &Message) -> Message {
    match (before, message) {
        (Some(Message::Part(before)), Message::Part(part)) => {
            let mut part = part.clone();
            part.data.extend(before.data.iter().cloned());
            Message::Part(part)
        }
        _ => message.clone(),
    }
}

/// What those are told whose operation a node has left.
fn left(by: Place) -> Outcome {
    Outcome::GivenUp(GivenUp { by, why: Why::Left })
}

/// What may happen beside operations that complete.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Faults {
    None,
    All,
}

fn run(seed: u64, count: usize, degree: usize, operations: usize, faults: Faults) -> World {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut world = World::new(count, degree);
    // of many nodes these would be millions
    world.is_in_pieces = count < 100 && rng.random_bool(0.5);
    let mut plans = Vec::new();
    for number in 0..operations {
        let share = [0.3, 0.7, 1.0][rng.random_range(0..3)];
        let mut members: Vec<Place> = (0..count).filter(|_| rng.random_bool(share)).collect();
        if members.is_empty() {
            members.push(rng.random_range(0..count));
        }
        let members: Arc<[Place]> = members.into();
        plans.extend(members.iter().map(|node| (*node, format!("op {number}"), members.clone())));
    }
    let mut entered = Vec::new();
    // each has many pieces sent again, which could go on for ever
    let mut cuts_left = 1_000;
    let is_faulty = faults == Faults::All;
    while !plans.is_empty() || !world.ready.is_empty() {
        match rng.random_range(0..20) {
            0..=7 if !plans.is_empty() => {
                let (node, operation, members) = plans.swap_remove(rng.random_range(0..plans.len()));
                let data = Bytes::from(format!("{node} of {operation}"));
                world.with(node, |gathering| gathering.enter(&operation, &members, data));
                entered.push((node, operation, members));
            }
            8 if is_faulty && rng.random_bool(0.1) && !entered.is_empty() => {
                let (node, operation, _) = entered[rng.random_range(0..entered.len())].clone();
                if !world.told.iter().any(|(by, of, _)| *by == node && *of == operation)
                    && world.nodes[node].is_some()
                {
                    world.with(node, |gathering| gathering.give_up(&operation));
                    world.told.push((node, operation, left(node)));
                }
            }
            9 if is_faulty && rng.random_bool(0.1) => {
                let node = rng.random_range(0..count);
                if world.nodes[node].is_some() && world.dead.len() + 1 < count {
                    world.kill(node, |most| rng.random_range(0..most));
                }
            }
            10 if is_faulty && cuts_left > 0 && rng.random_bool(0.5) && !world.ready.is_empty() => {
                let edge = world.ready[rng.random_range(0..world.ready.len())];
                if edge.0 != JUDGE {
                    cuts_left -= 1;
                    world.cut(edge, |most| rng.random_range(0..most));
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

fn check(world: &World, entered: &[(Place, String, Arc<[Place]>)]) {
    let mut results = BTreeMap::<&str, BTreeSet<bool>>::new();
    for (node, operation, members) in entered {
        let told: Vec<_> = world.told.iter().filter(|(by, of, _)| by == node && of == operation).collect();
        if world.nodes[*node].is_none() {
            assert!(told.len() <= 1, "{node} {operation}: {told:?}");
            continue;
        }
        let [(.., outcome)] = told[..] else { panic!("{node} {operation}: told {told:?}") };
        match outcome {
            Outcome::Complete(data) => {
                let expected: Vec<_> = members
                    .iter()
                    .map(|node| (*node, Bytes::from(format!("{node} of {operation}"))))
                    .collect();
                assert_eq!(*data, expected);
            }
            Outcome::Lost(node) => assert!(world.dead.contains(node) && members.contains(node)),
            Outcome::GivenUp(GivenUp { by, why }) => assert!(*why == Why::Left && members.contains(by)),
        }
        // one that has given up has not waited for the outcome
        if *outcome != left(*node) && !world.dead.contains(&members[0]) {
            results.entry(operation).or_default().insert(matches!(outcome, Outcome::Complete(_)));
        }
    }
    assert!(
        results.values().all(|results| results.len() == 1),
        "as long as the root lives, all are told the same"
    );
    for (node, gathering) in world.nodes.iter().enumerate() {
        let Some(gathering) = gathering else { continue };
        assert_eq!(gathering.len(), 0, "{node} remembers {:?} {:?}", gathering.operations, gathering.early);
    }
}

/// The number of schedules to try: `PMIX_SCHEDULES` if it is set.
fn schedules(default: u32) -> u32 {
    std::env::var("PMIX_SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(schedules(400)))]

    #[test]
    fn every_participant_is_answered_once_whatever_the_schedule(
        seed: u64, count in 1_usize..64, degree in prop_oneof![1_usize..5, Just(32)], operations in 1_usize..8,
    ) {
        run(seed, count, degree, operations, Faults::All);
    }

    #[test]
    fn without_faults_every_operation_is_complete(
        seed: u64, count in 1_usize..64, degree in prop_oneof![Just(2_usize), Just(32)],
    ) {
        let world = run(seed, count, degree, 3, Faults::None);
        prop_assert!(world.told.iter().all(|(.., outcome)| matches!(outcome, Outcome::Complete(_))));
    }
}

/// Without a limit for connections that break, this one had no end.
#[test]
fn every_participant_is_answered_once_although_connections_break_again_and_again() {
    for operations in 1..8 {
        run(10_962_832_336_500_864_346, 57, 32, operations, Faults::All);
    }
}

/// One schedule in the tests; a thousandth of `PMIX_SCHEDULES`.
#[test]
fn every_participant_of_2000_nodes_is_answered_once() {
    for seed in 0..u64::from(schedules(400)).div_ceil(1000) {
        run(seed, 2000, 32, 2, Faults::All);
    }
}

#[test]
fn an_operation_takes_one_message_on_each_edge_both_ways_and_brings_no_node_its_own_data() {
    for (count, degree) in [(10, 2), (100, 32), (1000, 32), (2000, 32)] {
        let mut world = World::new(count, degree);
        let members: Arc<[Place]> = (0..count).collect();
        for node in 0..count {
            world.with(node, |gathering| gathering.enter("fence", &members, Bytes::from_static(&[0; 8])));
        }
        while world.step(0) {}
        assert_eq!(world.told.len(), count);
        let most = world.messages.iter().map(|(sent, received)| sent.max(received)).max();
        println!("{count} nodes, degree {degree}: at most {most:?} messages each way, {} bytes", world.bytes);
        assert!(most <= Some(&(degree + 1)));
        // on an edge, each node's data goes one way
        assert_eq!(world.bytes, 8 * count * (count - 1));
    }
}

fn told(world: &World) -> Vec<(Place, Outcome)> {
    let mut told: Vec<_> = world.told.iter().map(|(node, _, outcome)| (*node, outcome.clone())).collect();
    told.sort_by_key(|(node, _)| *node);
    told
}

fn remembers_nothing(world: &World) -> bool {
    world.nodes.iter().flatten().all(|gathering| gathering.len() == 0)
}

#[test]
fn a_node_that_comes_late_hears_that_it_was_given_up_and_nothing_is_kept() {
    let mut world = World::new(3, 2);
    let members = [0, 1, 2].into();
    world.with(1, |gathering| gathering.enter("op", &members, "1".into()));
    world.with(1, |gathering| gathering.give_up("op"));
    while world.step(0) {}
    for node in [0, 2] {
        world.with(node, |gathering| gathering.enter("op", &members, "late".into()));
        while world.step(0) {}
    }
    assert_eq!(told(&world), [(0, left(1)), (2, left(1))]);
    assert!(remembers_nothing(&world));
}

#[test]
fn an_operation_that_brings_too_much_is_given_up_for_all() {
    let much = Bytes::from(vec![0; MAX_GIVEN]);
    let members: Arc<[Place]> = (0..=MAX_GATHERED / MAX_GIVEN).collect();
    for is_in_pieces in [false, true] {
        let mut world = World::new(members.len(), 2);
        world.is_in_pieces = is_in_pieces;
        for node in members.iter() {
            world.with(*node, |gathering| gathering.enter("op", &members, much.clone()));
        }
        while world.step(0) {}
        let too_much = Outcome::GivenUp(GivenUp { by: 0, why: Why::TooMuch });
        let all: Vec<_> = members.iter().map(|node| (*node, too_much.clone())).collect();
        // what is unlike would fill the terminal
        assert!(told(&world) == all);
        assert!(remembers_nothing(&world));
    }
}

#[test]
fn more_than_a_node_holds_is_no_outcome_of_the_operation() {
    let all: Arc<[Place]> = (0..=MAX_GATHERED / MAX_GIVEN + 1).collect();
    let mut gathering = Gathering::new(1, all.len());
    gathering.enter("op", &all, "1".into());
    let much = Bytes::from(vec![0; MAX_GIVEN]);
    let others: Vec<_> = all.iter().filter(|node| **node != 1).map(|node| (*node, much.clone())).collect();
    gathering.foretell(0, "op", &all, others);
    let acts = gathering.outcome(0, "op", &all, Outcome::Complete(Vec::new()));
    let too_much = Outcome::GivenUp(GivenUp { by: 1, why: Why::TooMuch });
    assert!(acts == [Act::Ready { operation: "op".into(), outcome: too_much }]);
}

#[test]
fn those_below_a_lost_node_learn_how_it_had_ended() {
    // 0 - 1 - 2 - 3
    let mut world = World::new(4, 1);
    let members = Arc::from([0, 1, 2, 3]);
    for node in 0..4 {
        world.with(node, |gathering| gathering.enter("op", &members, "x".into()));
    }
    // until the outcome is on its way from 1 to 2
    while !world.told.iter().any(|(node, ..)| *node == 1) {
        world.step(0);
    }
    world.kill(1, |_| 0);
    while world.step(0) {}
    let complete: Vec<_> = told(&world)
        .into_iter()
        .map(|(node, outcome)| (node, matches!(outcome, Outcome::Complete(_))))
        .collect();
    assert_eq!(complete, [0, 1, 2, 3].map(|node| (node, true)));
    assert!(remembers_nothing(&world));
}

#[test]
fn nodes_that_name_others_for_the_same_operation_give_it_up() {
    let differs = |by| Outcome::GivenUp(GivenUp { by, why: Why::Differs });
    let mut world = World::new(3, 2);
    world.with(0, |gathering| gathering.enter("op", &Arc::from([0, 1, 2]), "0".into()));
    world.with(1, |gathering| gathering.enter("op", &Arc::from([0, 1]), "1".into()));
    world.with(2, |gathering| gathering.enter("op", &Arc::from([0, 1, 2]), "2".into()));
    while world.step(0) {}
    assert_eq!(told(&world), [0, 1, 2].map(|node| (node, differs(1))));
    // and so does one that comes after those below it
    world.told.clear();
    world.with(1, |gathering| gathering.enter("other", &Arc::from([0, 1]), "1".into()));
    while world.step(0) {}
    world.with(0, |gathering| gathering.enter("other", &Arc::from([0, 1, 2]), "0".into()));
    while world.step(0) {}
    assert_eq!(told(&world), [0, 1].map(|node| (node, differs(0))));
}

#[test]
fn data_is_passed_on_once() {
    let mut gathering = Gathering::new(3, 1);
    let said = |acts: Vec<Act>| match &acts[..] {
        [Act::Up { to, part }] => (*to, part.data.len(), part.given_up.map(|given_up| given_up.by)),
        other => panic!("{other:?}"),
    };
    assert_eq!(said(gathering.enter("op", &Arc::from([0, 1, 2, 3]), "3".into())), (2, 1, None));
    assert_eq!(said(gathering.lose(2)), (1, 0, None));
    assert_eq!(gathering.lose(2), []);
    assert_eq!(said(gathering.give_up("op")), (1, 0, Some(3)));
    assert_eq!(gathering.give_up("op"), []);
}

#[test]
fn what_a_node_must_not_say_is_not_sound() {
    let gathering = Gathering::new(0, 2);
    let part = |members: &[Place], data: &[Place], given_up: Option<Place>| Part {
        operation: "op".into(),
        members: members.into(),
        data: data.iter().map(|node| (*node, Bytes::new())).collect(),
        given_up: given_up.map(|by| GivenUp { by, why: Why::Left }),
    };
    let all = [0, 1, 2, 3, 4];
    assert!(gathering.is_sound(1, &part(&all, &[1, 3, 4], Some(3))));
    for (members, data, given_up) in [
        (&all[..], &[1, 2][..], None),
        (&all, &[1], Some(2)),
        (&all[..1], &[], None),
        (&all[1..], &[1], None),
        (&all, &[9], None),
    ] {
        assert!(!gathering.is_sound(1, &part(members, data, given_up)), "{members:?} {data:?} {given_up:?}");
    }
    let (mut gathering, all) = (Gathering::new(3, 2), Arc::from(all));
    gathering.enter("op", &all, "3".into());
    assert_eq!(gathering.outcome(2, "op", &all, left(2)), []);
    assert_eq!(gathering.outcome(1, "op", &all, left(2)).len(), 1);
}

#[test]
fn an_outcome_without_all_data_fails_the_operation_here() {
    let mut gathering = Gathering::new(1, 2);
    let all = Arc::from([0, 1, 2]);
    let failed = |acts: Vec<Act>| {
        matches!(
            acts[..],
            [Act::Ready { outcome: Outcome::GivenUp(GivenUp { by: 1, why: Why::Unreadable }), .. }]
        )
    };
    gathering.enter("less", &all, "1".into());
    assert!(failed(gathering.outcome(0, "less", &all, Outcome::Complete(vec![(0, "0".into())]))));
    gathering.enter("none", &all, "1".into());
    assert!(failed(gathering.fail("none")));
    assert_eq!((gathering.fail("none"), gathering.len()), (vec![], 0));
}

#[test]
fn pieces_of_too_many_operations_are_refused() {
    let mut gathering = Gathering::new(0, 2);
    let members: Arc<[Place]> = [0, 1].into();
    let name = |number: usize| format!("op {number}");
    for number in 0..MAX_OPEN {
        assert!(gathering.has_room_for(&name(number)));
        let (operation, members) = (name(number), members.clone());
        gathering.take(1, Part { operation, members, data: Vec::new(), given_up: None });
    }
    assert!(!gathering.has_room_for("one more") && gathering.has_room_for(&name(0)));
}
