use std::os::unix::fs::PermissionsExt;

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

#[tokio::test]
async fn another_format_is_refused() {
    let (_dir, path) = filled().await;
    let (file, _) = open(&path).unwrap();
    set(&file.0, FORMAT, 2).unwrap();
    drop(file);
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
