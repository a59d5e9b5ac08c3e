//! Who is let in, and who leaves room for whom.

use pmix_test_wait::{PausedClock, moment};

use super::*;

const OWN: Uid = Uid::new(4000);
const ALICE: Uid = Uid::new(4001);
const BOB: Uid = Uid::new(4002);
const CAROL: Uid = Uid::new(4003);
const DAVE: Uid = Uid::new(4004);
/// No database has it.
const BORROWED: Uid = Uid::new(4_294_967_000);
const PLACES: Places = Places { each: 2, visitors: 3, connections: 5 };

fn door(other_users: bool) -> Door {
    Door::of(OWN, other_users, PLACES, |_| false)
}

#[test]
fn sec_01_a_server_without_other_users_serves_its_own_and_root() {
    let door = door(false);
    let guests: Vec<_> =
        [OWN, Uid::ROOT].repeat(100).into_iter().map(|uid| door.enter(uid).unwrap()).collect();
    let refused = door.enter(ALICE).unwrap_err();
    assert!(refused.contains("belongs to uid 4001") && refused.contains("uid 4000 only"), "{refused}");
    drop(guests);
}

/// One that somebody has borrowed stands for a user who has another one; one with an account is a user.
#[test]
fn subordinate_uids_without_an_account_are_not_let_in() {
    let door = Door::of(OWN, true, PLACES, |uid| uid == Uid::NOBODY || uid == BORROWED);
    let refused = door.enter(BORROWED).unwrap_err();
    assert!(refused.contains("uid 4294967000 has no account"), "{refused}");
    assert_eq!(door.enter(Uid::NOBODY).is_ok(), account::exists(Uid::NOBODY));
    assert!(door.enter(ALICE).is_ok());
}

#[test]
fn a_user_holds_only_so_many_connections_that_are_silent() {
    let door = door(true);
    let mut held = vec![door.enter(ALICE).unwrap(), door.enter(ALICE).unwrap()];
    let refused = door.enter(ALICE).unwrap_err();
    assert!(refused.contains("without a greeting yet (uid 4001 has 2)"), "{refused}");
    held[0].let_in();
    held[0].let_in();
    held.push(door.enter(ALICE).unwrap());
    assert!(door.enter(ALICE).is_err());
    assert!(door.enter(OWN).is_ok(), "our own user is not concerned");
    held.clear();
    let again: Vec<_> = (0..2).map(|_| door.enter(ALICE).unwrap()).collect();
    assert!(door.enter(ALICE).is_err());
    drop(again);
}

#[test]
fn all_other_users_together_leave_room_for_our_own() {
    let door = door(true);
    let mut silent: Vec<_> = [ALICE, ALICE, BOB].map(|uid| door.enter(uid).unwrap()).into();
    assert!(door.enter(BOB).is_err(), "three visitors are all there may be");
    silent.iter_mut().for_each(Guest::let_in);
    let mut more: Vec<_> = [BOB, CAROL].map(|uid| door.enter(uid).unwrap()).into();
    more.iter_mut().for_each(Guest::let_in);
    assert!(
        door.enter(DAVE).unwrap_err().contains("users other than uid 4000"),
        "and so are five connections"
    );
    drop(silent);
    assert!(door.enter(DAVE).is_ok());
}

#[test]
fn however_many_connections_a_user_has_others_find_some() {
    let door = Door::of(OWN, true, Places { each: 64, visitors: 64, connections: 64 }, |_| false);
    let all = |uid| std::iter::from_fn(|| door.enter(uid).ok()).collect::<Vec<_>>();
    let held = [ALICE, BOB, CAROL].map(all);
    assert_eq!(held.each_ref().map(Vec::len), [48, 12, 3]);
    drop(held);
    assert_eq!(all(DAVE).len(), 48);
}

#[tokio::test(start_paused = true)]
async fn who_is_turned_away_is_counted_also_without_a_line() {
    let door = door(true);
    let lines = (0..2 * LINES).filter(|_| door.turn_away(ALICE).is_some()).count();
    assert_eq!((lines, door.turned_away()), (LINES as usize, u64::from(2 * LINES)));
    assert!(door.turn_away(BOB).is_some(), "others have lines of their own");
}

#[test]
fn the_log_has_so_many_lines_about_a_user_and_then_tells_how_many_it_left_out() {
    let (mut lines, now) = (Lines::default(), moment());
    for _ in 0..LINES {
        assert!(lines.take(now, LINES).is_some_and(|line| line.left_out.is_none()));
    }
    assert!(lines.take(now, LINES).is_none() && lines.take(now + WINDOW / 2, LINES).is_none());
    let next = lines.take(now + WINDOW, LINES).unwrap();
    assert_eq!(next.left_out, Some(2));
    assert!(lines.take(now + WINDOW, LINES).is_none(), "it goes on: one line a window is enough");
    assert_eq!(lines.take(now + 2 * WINDOW, LINES).unwrap().left_out, Some(1));
    assert_eq!(lines.take(now + 3 * WINDOW, LINES).unwrap().left_out, None);
    assert!(lines.take(now + 3 * WINDOW, LINES).is_some(), "it was quiet");
}

#[tokio::test(start_paused = true)]
async fn strangers_cost_the_server_a_small_part_of_its_time() {
    let door = door(true);
    let paused = async |times: u32| {
        let clock = PausedClock::start();
        for _ in 0..times {
            let _ = door.turn_away(ALICE);
            door.worked();
            door.pace().await;
        }
        clock.passed()
    };
    assert!(paused(UNITS_AT_ONCE as u32).await.is_zero(), "a few are dealt with at once");
    let second = paused(UNITS_A_SECOND as u32).await;
    assert!(second.abs_diff(Duration::from_secs(1)) < Duration::from_millis(50), "{second:?}");
    // a visitor that is let in costs nothing in the end, and our own user never does
    tokio::time::advance(Duration::from_secs(1)).await;
    let clock = PausedClock::start();
    for uid in [ALICE, OWN].repeat(1000) {
        door.enter(uid).unwrap().let_in();
        let _ = door.turn_away(OWN);
        door.worked();
        door.pace().await;
    }
    assert!(clock.passed().is_zero());
    for _ in 0..UNITS_AT_ONCE as u32 / VISIT as u32 + 8 {
        drop(door.enter(ALICE).unwrap());
    }
    door.worked();
    door.pace().await;
    assert!(clock.passed() >= Duration::from_millis(10), "visitors cost more: {:?}", clock.passed());
}

#[tokio::test(start_paused = true)]
async fn strangers_are_got_out_of_the_way_while_there_is_nothing_else_to_do() {
    let door = door(true);
    let clock = PausedClock::start();
    for _ in 0..10 * UNITS_A_SECOND as u32 {
        let _ = door.turn_away(ALICE);
        door.pace().await;
    }
    assert!(clock.passed().is_zero());
    // and the next strangers do not pay for that
    door.worked();
    door.pace().await;
    assert!((10..15).contains(&clock.passed().as_millis()), "{:?}", clock.passed());
}

#[tokio::test(start_paused = true)]
async fn many_users_cost_no_more_lines_and_memory_than_a_few() {
    let door = door(true);
    let uids = (100_000..200_000).map(Uid::new);
    let lines = uids.clone().filter(|uid| door.turn_away(*uid).is_some()).count();
    assert_eq!(lines, LINES_OF_OTHERS as usize, "all of this is one window");
    assert!(door.users().each.len() <= USERS + 1);
    // their visitors still count, and our own user still has its lines
    let guests: Vec<_> = uids.filter_map(|uid| door.enter(uid).ok()).collect();
    assert_eq!(guests.len(), 3);
    assert_eq!(door.users().visitors, 3);
    drop(guests);
    let users = door.users();
    assert_eq!((users.visitors, users.connections), (0, 0));
    drop(users);
    assert!(door.line(OWN).is_some());
}

#[tokio::test(start_paused = true)]
async fn the_log_remembers_of_users_who_have_left_only_what_is_recent() {
    let door = door(true);
    let _stays = door.enter(ALICE).unwrap();
    for uid in 2..100 {
        assert!(door.line(Uid::new(uid)).is_some());
    }
    tokio::time::advance(WINDOW).await;
    assert!(door.line(BOB).is_some() && door.line(None).is_some());
    let left = [CountedAs::User(ALICE), CountedAs::User(BOB), CountedAs::Unknown];
    assert_eq!(door.users().each.keys().copied().collect::<Vec<_>>(), left);
}

#[tokio::test(start_paused = true)]
async fn a_listener_gives_its_spare_descriptor_up_once_and_then_waits() {
    let mut reserve = Reserve::new(door(false)).unwrap();
    let short = io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
    let clock = PausedClock::start();
    reserve.on_error(&short).await;
    assert!(reserve.spare.is_none() && clock.passed().is_zero(), "now one can be accepted");
    reserve.on_error(&short).await;
    assert!(reserve.spare.is_some() && clock.passed() >= ACCEPT_AGAIN);
    // a spare descriptor does not help here
    reserve.on_error(&io::ErrorKind::OutOfMemory.into()).await;
    assert!(reserve.spare.is_some() && clock.passed() >= 2 * ACCEPT_AGAIN);
    reserve.on_error(&short).await;
    reserve.on_accepted().await;
    assert!(reserve.spare.is_some());
}

#[test]
fn places_follow_from_the_limit_of_descriptors() {
    assert_eq!(Places::of(64), Places { each: 8, visitors: 16, connections: 32 });
    assert_eq!(Places::of(1 << 20), Places { each: 1024, visitors: 4096, connections: 1 << 19 });
    assert_eq!(Places::of(u64::MAX).visitors, 4096);
}
