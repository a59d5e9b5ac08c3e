use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use pmix_types::{DataRange, Gid, Pdata, Persistence, ProcId, Uid, Value};
use tempfile::TempDir;

use super::*;
use crate::store::{Access, Item, Requester};
use crate::user::User;

fn item(key: &str, access: Access) -> Item {
    let proc = ProcId::new("job".parse().unwrap(), pmix_types::Rank::from_raw(3));
    let user = User { proc: proc.clone(), uid: Uid::new(7), gid: Some(Gid::new(8)) };
    Item {
        publisher: Arc::new(Requester { user, node: "n1".into(), session: Some(5) }),
        data: Pdata::new(proc, key.parse().unwrap(), Value::String("v".repeat(3000))),
        access: Arc::new(access),
        persistence: Persistence::INDEF,
    }
}

fn records() -> Vec<DurableRecord> {
    let peer = ProcId::new("peer".parse().unwrap(), pmix_types::Rank::WILDCARD);
    let plain = Access { range: DataRange::SESSION, custom: Vec::new(), named: None };
    let named = Some(([1, 2].map(Uid::new).to_vec(), vec![]));
    let listed = Access { range: DataRange::CUSTOM, custom: vec![peer], named };
    let items = [(3, item("plain", plain)), (9, item("listed", listed))];
    items
        .iter()
        .map(|(number, item)| {
            let record = DurableRecord::of(*number, item);
            assert_eq!(record.item().as_ref(), Ok(item));
            record
        })
        .collect()
}

/// Fails like a full disk when no write is left.
pub(super) fn count_down(writes: &AtomicUsize) -> io::Result<()> {
    let left = writes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    left.map(drop).map_err(|_| io::ErrorKind::StorageFull.into())
}

/// Has a file fail after so many writes.
fn fail_after(file: &StoreFile, writes: usize) {
    lock(&file.0).pages.writes.store(writes, Ordering::SeqCst);
}

/// A file with the items, closed.
async fn filled() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("published");
    let (file, old) = open(&path).unwrap();
    assert!(old.is_empty());
    file.insert(records()).await.unwrap();
    (dir, path)
}

#[tokio::test]
async fn pub_08_what_was_filed_is_read_back_as_it_was() {
    let (_dir, path) = filled().await;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let (file, old) = open(&path).unwrap();
    assert_eq!(old, records());
    file.remove(vec![3, 4]).await.unwrap();
    drop(file);
    assert_eq!(open(&path).unwrap().1, records()[1..]);
}

#[tokio::test]
async fn a_file_in_use_is_refused() {
    let (_dir, path) = filled().await;
    let _file = open(&path).unwrap();
    assert!(matches!(open(&path), Err(DurableError::InUse { .. })));
}

#[test]
fn files_of_others_are_refused_and_left_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes");
    for content in ["x", &"the notes of somebody\n".repeat(1000)] {
        std::fs::write(&path, content).unwrap();
        let error = open(&path).map(|_| ()).unwrap_err();
        assert!(matches!(error, DurableError::Foreign { .. }), "{error:?}");
        assert!(error.to_string().contains("notes is not a store"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), *content);
    }
    let path = dir.path().join("database");
    let database = Database::create(&path).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(TableDefinition::<&str, &str>::new("theirs")).unwrap();
    write.commit().unwrap();
    drop(database);
    assert!(matches!(open(&path), Err(DurableError::Foreign { .. })));
    assert!(matches!(open(dir.path()), Err(DurableError::Io { .. })));
}

/// Has a change fail at each of its writes in turn, then what opens the file again at each of its own.
async fn each_failure_of(change: impl AsyncFn(&StoreFile) -> HostResult<()>, expected: &[DurableRecord]) {
    let other = DurableRecord::new(30, records()[0].data.clone());
    for first in 0.. {
        let (_dir, path) = filled().await;
        let (file, _) = open(&path).unwrap();
        fail_after(&file, first);
        let Err(error) = change(&file).await else {
            assert!(first > 2, "{first} writes");
            return;
        };
        assert_eq!(error.status(), Status::ERR_FILE_WRITE_FAILURE);
        for again in 0.. {
            fail_after(&file, again);
            let Err(error) = file.insert(vec![other.clone()]).await else { break };
            assert_eq!(error.status(), Status::ERR_FILE_WRITE_FAILURE);
            // the cause, not that there was one before
            assert!(!error.to_string().contains("revious"), "{first}, {again}: {error}");
        }
        fail_after(&file, usize::MAX);
        file.remove(vec![30]).await.unwrap();
        drop(file);
        assert_eq!(open(&path).unwrap().1, expected, "after {first} writes");
    }
}

#[tokio::test]
async fn a_file_that_could_not_be_written_is_opened_again_and_has_what_it_had() {
    let more = DurableRecord::new(20, records()[0].data.clone());
    each_failure_of(async |file| file.insert(vec![more.clone()]).await, &records()).await;
    each_failure_of(async |file| file.remove(vec![3, 9]).await, &records()).await;
}

#[tokio::test]
async fn a_file_that_is_not_a_store_any_more_when_it_is_opened_again_is_refused() {
    let (_dir, path) = filled().await;
    let (file, _) = open(&path).unwrap();
    fail_after(&file, 0);
    file.remove(vec![3]).await.unwrap_err();
    std::fs::write(&path, "the notes of somebody\n".repeat(1000)).unwrap();
    fail_after(&file, usize::MAX);
    for _ in 0..2 {
        let error = file.insert(records()).await.unwrap_err();
        assert!(error.to_string().contains("is not a store of published data"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_log_is_told_once_that_a_file_cannot_be_written_and_at_most_once_a_minute() {
    let (_dir, path) = filled().await;
    let (file, _) = open(&path).unwrap();
    for (has_failed, seconds, is_news) in [
        (false, 0, false),
        (true, 100, true),
        (true, 0, false),
        (false, 0, false),
        (true, 10, true),
        (false, 10, false),
        (true, 100, false),
        (true, 0, false),
    ] {
        assert_eq!(lock(&file.0).is_news(has_failed), is_news);
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }
}

#[tokio::test]
async fn another_format_is_refused() {
    let (_dir, path) = filled().await;
    let (file, _) = open(&path).unwrap();
    let state = std::mem::replace(&mut lock(&file.0).state, StoreState::Closed);
    let StoreState::Open(database) = state else { panic!("{state:?}") };
    set(&database, FORMAT, 2).unwrap();
    drop((file, database));
    let error = open(&path).map(|_| ()).unwrap_err();
    assert!(error.to_string().ends_with("has format 2, and this server knows format 1 only"), "{error}");
}

#[tokio::test]
async fn damage_is_an_error_each_time_and_never_the_loss_of_data() {
    let (dir, path) = filled().await;
    let good = std::fs::read(&path).unwrap();
    let whole = records();
    let mut refused = 0;
    // every part of the file in turn
    for at in (0..good.len()).step_by(good.len() / 60) {
        let bad = dir.path().join(format!("bad-{at}"));
        let mut bytes = good.clone();
        bytes[at] ^= 0x55;
        std::fs::write(&bad, bytes).unwrap();
        for _ in 0..2 {
            match open(&bad) {
                // a part that holds nothing
                Ok((_, records)) => assert_eq!(records, whole, "byte {at}"),
                Err(_) => refused += 1,
            }
        }
        std::fs::remove_file(&bad).unwrap();
    }
    assert!(refused > 0);
    // what it holds
    let text = good.windows(100).position(|part| part.iter().all(|byte| *byte == b'v')).unwrap();
    let mut bytes = good.clone();
    bytes[text + 50] = b'w';
    std::fs::write(&path, bytes).unwrap();
    for _ in 0..2 {
        let error = open(&path).map(|_| ()).unwrap_err();
        assert!(matches!(error, DurableError::Damaged { .. }), "{error:?}");
        assert!(error.to_string().contains("move it away"), "{error}");
    }
    // cut off
    std::fs::write(&path, &good[..good.len() / 2]).unwrap();
    open(&path).map(|_| ()).unwrap_err();
}
