//! The constants against the Standard's tables.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail them")]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::error::Error;
use std::fmt::{Debug, Display};
use std::str::FromStr;
use std::{fs, iter};

use bitflags::Flags;
use pmix_types::*;
use proptest::prelude::*;

#[path = "../examples/gen.rs"]
mod generator;

type TestResult = Result<(), Box<dyn Error>>;

#[test]
fn committed_files_are_what_the_generator_writes() -> TestResult {
    for (path, text) in generator::generate()? {
        assert_eq!(fs::read_to_string(&path)?, text, "{} is out of date", path.display());
    }
    Ok(())
}

// ---- statuses ----

#[test]
fn gen_03_zero_is_success_and_errors_are_negative() {
    assert_eq!(Status::SUCCESS.to_raw(), 0);
    for status in Status::all() {
        assert_eq!(
            status.kind() == Some(StatusKind::Error),
            status.is_error() && !is_event(status),
            "{status}"
        );
        assert!(status == Status::SUCCESS || status.to_raw() < 0, "{status}");
        let ours = status == Status::PROC_HAS_DISCONNECTED;
        assert_eq!(status.is_user_defined(), ours, "{status}");
    }
    assert!(Status::from_raw(1).is_user_defined() && !Status::from_raw(1).is_error());
    assert!(Status::from_raw(-3001).is_user_defined() && Status::from_raw(-3001).is_error());
    assert!(!Status::EXTERNAL_ERR_BASE.is_user_defined());
    assert!(Status::OPERATION_SUCCEEDED.is_success() && !Status::OPERATION_SUCCEEDED.is_error());
    assert!(!Status::EVENT_ACTION_COMPLETE.is_error());
}

#[test]
fn con_20_what_the_standard_left_without_string_or_number_has_one_of_its_own() {
    let names = [
        keys::CONNECT_NOTIFY_EACH.name(),
        keys::CONNECT_NOTIFY_REQ.name(),
        keys::CONNECT_OPTIONAL.name(),
        keys::CONNECT_EARLY_TERM_ALLOWED.name(),
        keys::CONNECT_XCHG_ONLY.name(),
        keys::CONNECT_ID.name(),
    ];
    // those of its time, and one that it never had
    assert_eq!(
        names,
        [
            "pmix.cnct.each",
            "pmix.cnct.req",
            "pmix.cnt.opt",
            "pmix.cnct.eterm",
            "pmix.cnt.xchg",
            "pmix.cnt.id"
        ]
    );
    let ours = Status::PROC_HAS_DISCONNECTED;
    assert!(ours.is_user_defined(), "no number of the Standard, today's or a later one");
    assert_eq!(Status::all().filter(|status| status.to_raw() == ours.to_raw()).count(), 1);
    assert_eq!((Status::PROC_HAS_CONNECTED.to_raw(), Status::CONNECT_REQUESTED.to_raw()), (-149, -150));
}

fn is_event(status: Status) -> bool {
    matches!(status.kind(), Some(StatusKind::Event | StatusKind::Boundary))
}

#[test]
fn every_status_of_the_table_has_its_number_and_kind() -> TestResult {
    let rows = generator::read_table("statuses.tsv")?;
    assert_eq!(rows.len(), Status::all().len());
    for row in rows {
        let status: Status = row[0].parse()?;
        assert_eq!(status.to_raw(), generator::status_number(&row[0], &row[1])?, "{}", row[0]);
        assert_eq!(status.kind().map(|kind| kind.to_string()), Some(row[2].clone()), "{}", row[0]);
        assert!(status.meaning().is_some_and(|meaning| meaning.len() > 3), "{}", row[0]);
    }
    Ok(())
}

#[test]
fn status_of_two_names_prints_the_newer_one() {
    assert_eq!(Status::EXISTS, Status::ERR_EXISTS);
    assert_eq!(Status::EXISTS.to_string(), "ERR_EXISTS");
    assert_eq!(Status::ERR_DEBUGGER_RELEASE.c_name(), Some("PMIX_DEBUGGER_RELEASE"));
    assert_eq!("err_sys_other".parse(), Ok(Status::EVENT_SYS_OTHER));
    assert_eq!("PMIX_DEBUG_WAITING_FOR_NOTIFY".parse(), Ok(Status::READY_FOR_DEBUG));
}

#[test]
fn only_the_old_names_share_a_number() -> TestResult {
    let numbers: HashSet<_> = Status::all().collect();
    let shared =
        generator::read_table("statuses.tsv")?.iter().filter(|row| row[7].starts_with("same number")).count();
    assert_eq!(Status::all().len() - numbers.len(), shared / 2);
    Ok(())
}

// ---- keys ----

#[test]
fn every_attribute_of_the_table_has_its_key_and_type() -> TestResult {
    let attributes = generator::attributes()?;
    let (variables, keys): (Vec<_>, Vec<_>) = attributes.iter().partition(|row| row.realm == "env");
    assert_eq!(variables.len(), 3);
    assert_eq!(keys.len(), keys::all().len());
    for row in keys {
        let definition = keys::find_constant(&row.c_name).ok_or(row.c_name.as_str())?;
        assert_eq!(definition.name, row.name);
        let (_, data_type) = generator::rust_type(&row.c_type)?;
        assert_eq!(definition.data_type.unwrap_or_default().name(), Some(data_type), "{}", row.c_name);
        assert_eq!(definition.is_deprecated(), row.mark.starts_with("deprecated"), "{}", row.c_name);
        assert_eq!(definition.doc, row.meaning);
        assert!(!definition.since.is_empty());
    }
    Ok(())
}

#[test]
fn gen_01_gen_02a_keys_of_the_table_are_reserved_names() {
    for definition in keys::all() {
        let name = KeyName::new(definition.name).unwrap();
        assert!(name.is_reserved(), "{name}");
    }
}

#[test]
fn no_constant_repeats_and_only_renamed_keys_share_a_text() {
    let constants: BTreeSet<_> = keys::all().iter().map(|definition| definition.constant).collect();
    assert_eq!(constants.len(), keys::all().len());

    let mut by_name = BTreeMap::<_, Vec<_>>::new();
    for definition in keys::all() {
        by_name.entry(definition.name).or_default().push(definition.constant);
    }
    by_name.retain(|_, constants| constants.len() > 1);
    let expected = [
        ("pmix.dbg.notify", vec!["DEBUG_STOP_IN_APP", "DEBUG_WAIT_FOR_NOTIFY"]),
        ("pmix.monitor.fmon", vec!["MONITOR_TARGET_FILES", "MONITOR_FILE"]),
        ("pmix.monitor.netresuse", vec!["MONITOR_NETWORK_RESOURCE_USAGE", "MONITOR_NET_RESOURCE_USAGE"]),
        ("pmix.node.mswpt", vec!["NODE_MEM_SWAP_TOTAL", "NODE_SWAP_TOTAL"]),
    ];
    assert_eq!(by_name, BTreeMap::from(expected));
    for (name, constants) in by_name {
        assert_eq!(keys::find(name).unwrap().constant, constants[0]);
    }
}

#[test]
fn every_key_is_found_by_text_and_constant() {
    for definition in keys::all() {
        assert_eq!(keys::find(definition.name).unwrap().name, definition.name);
        assert_eq!(keys::find_constant(definition.constant), Some(*definition));
    }
    for unknown in ["", "pmix", "pmix.", "pmix.job.siz", "pmix.job.size.", "zzz"] {
        assert_eq!(keys::find(unknown), None, "{unknown}");
        assert_eq!(keys::find_constant(unknown), None, "{unknown}");
    }
}

#[test]
fn keys_carry_the_types_of_the_table() {
    let _: Key<u32> = keys::JOB_SIZE;
    let _: Key<String> = keys::NODE_MAP;
    let _: Key<DataArray> = keys::PROC_INFO_ARRAY;
    let _: Key<ProcId> = keys::PARENT_ID;
    let _: Key<Value> = keys::DEBUG_STOP_IN_APP;
    assert_eq!(keys::GROUP_CONTEXT_ID, Key::<u64>::new("pmix.grp.ctxid", DataType::SIZE));
    assert_eq!(keys::TIMEOUT, Key::<i32>::new("pmix.timeout", DataType::INT));
    assert_eq!(keys::env::KEEPALIVE_PIPE, "PMIX_KEEPALIVE_PIPE");
    assert_eq!(keys::find("pmix.max.size").unwrap().realm, Realm::Job);
    assert_eq!(keys::find("pmix.timeout").unwrap().realm, Realm::None);
}

// ---- data types ----

#[test]
fn val_01_data_types_have_the_numbers_and_holes_of_the_table() -> TestResult {
    let mut numbers = BTreeSet::new();
    for row in generator::read_table("types.tsv")? {
        let number: u16 = row[1].parse()?;
        if row[0] == "PMIX_DATA_TYPE_MAX" {
            assert_eq!(DataType::MAX, number);
        } else if row[6].starts_with("removed") {
            assert!(!DataType::from_raw(number).is_known(), "{}", row[0]);
            assert!(row[0].parse::<DataType>().is_err(), "{}", row[0]);
        } else {
            assert_eq!(row[0].parse(), Ok(DataType::from_raw(number)));
            assert!(numbers.insert(number), "{number} repeats");
        }
    }
    let holes: Vec<_> = (0..=75).filter(|number| !numbers.contains(number)).collect();
    assert_eq!(holes, [26, 29, 44, 61, 62, 63, 64]);
    assert_eq!(DataType::all().len(), numbers.len());
    assert!(DataType::from_raw(501).is_user_defined() && !DataType::from_raw(500).is_user_defined());
    Ok(())
}

// ---- open numbers and flags ----

/// What the tables say of a C type: constants with their numbers.
fn constants_of(c_type: &str) -> Vec<(String, u64)> {
    let rows = generator::read_table("enums.tsv").unwrap();
    let constants: Vec<_> = rows.iter().filter(|row| row[0] == c_type).collect();
    assert!(!constants.is_empty(), "{c_type}");
    constants.iter().map(|row| (row[3].clone(), row[4].parse().unwrap())).collect()
}

macro_rules! open_numbers {
    ($check:ident: $($Type:ident = $c_type:literal),+ $(,)?) => {
        $( $check::<$Type>($c_type, $Type::from_raw, $Type::all(), $Type::c_name); )+
    };
}

fn matches_table<T: Copy + PartialEq + Debug + Display + FromStr<Err: Debug>>(
    c_type: &str,
    from_raw: fn(u8) -> T,
    all: &[T],
    c_name: fn(T) -> Option<&'static str>,
) {
    let constants = constants_of(c_type);
    assert_eq!(all.len(), constants.len(), "{c_type}");
    let mut seen = HashSet::new();
    for ((name, number), &value) in iter::zip(&constants, all) {
        assert_eq!(value, from_raw(u8::try_from(*number).unwrap()), "{name}");
        assert_eq!(name.parse::<T>().unwrap(), value);
        assert_eq!(name.to_lowercase().parse::<T>().unwrap(), value);
        if seen.insert(number) {
            assert_eq!(c_name(value), Some(name.as_str()));
        }
    }
}

fn survives<T: Copy + PartialEq + Debug + Display + FromStr<Err: Debug>>(
    c_type: &str,
    from_raw: fn(u8) -> T,
    _: &[T],
    _: fn(T) -> Option<&'static str>,
) {
    for number in 0..=u8::MAX {
        let value = from_raw(number);
        assert_eq!(value.to_string().parse::<T>().unwrap(), value, "{c_type} {number}");
        assert_eq!(number.to_string().parse::<T>().unwrap(), value, "{c_type} {number}");
    }
}

macro_rules! all_open_numbers {
    ($check:ident) => {
        open_numbers!($check:
            AllocDirective = "pmix_alloc_directive_t",
            AllocInheritance = "pmix_alloc_inheritance_t",
            BindEnvelope = "pmix_bind_envelope_t",
            CoordView = "pmix_coord_view_t",
            DataRange = "pmix_data_range_t",
            FabricOperation = "pmix_fabric_operation_t",
            GroupOperation = "pmix_group_operation_t",
            GroupOpt = "pmix_group_opt_t",
            JobState = "pmix_job_state_t",
            LinkState = "pmix_link_state_t",
            Persistence = "pmix_persistence_t",
            ProcState = "pmix_proc_state_t",
            ResourceBlockDirective = "pmix_resource_block_directive_t",
            Scope = "pmix_scope_t",
        )
    };
}

#[test]
fn every_open_number_of_the_table_has_its_constant() {
    all_open_numbers!(matches_table);
}

#[test]
fn gen_18_unknown_numbers_survive_text_and_conversion() {
    all_open_numbers!(survives);
    for number in 0..=u16::MAX {
        let value = DataType::from_raw(number);
        assert_eq!(u16::from(value), number);
        assert_eq!(value.to_string().parse(), Ok(value));
    }
    assert_eq!(Persistence::from_raw(77).to_raw(), 77);
    assert_eq!(Persistence::from_raw(77).to_string(), "UNKNOWN(77)");
    assert_eq!(format!("{:?} {:?}", Scope::GLOBAL, Scope::from_raw(77)), "Scope::GLOBAL Scope(77)");
}

#[test]
fn text_that_is_no_constant_is_refused() {
    for text in [
        "",
        " ",
        "GLOBAL ",
        "PMIX_",
        "PMIX_PMIX_GLOBAL",
        "256",
        "-1",
        "UNKNOWN(",
        "UNKNOWN()",
        "UNKNOWN(1",
        "ä",
    ] {
        let error = text.parse::<Scope>().unwrap_err();
        assert_eq!((error.kind, error.input.as_str()), ("Scope", text));
    }
    assert!("2147483648".parse::<Status>().is_err());
    assert!("ERR_NOPE".parse::<Status>().is_err());
    assert!("STDIN | NOPE".parse::<IofChannels>().is_err());
}

#[test]
fn constants_that_share_a_number_print_the_first_name() {
    assert_eq!(JobState::PREPPED, JobState::AWAITING_ALLOC);
    assert_eq!(JobState::PREPPED.to_string(), "AWAITING_ALLOC");
    assert_eq!("PREPPED".parse(), Ok(JobState::AWAITING_ALLOC));
}

#[test]
fn val_07_borders_of_states() {
    for number in 0..=u8::MAX {
        let (alive, terminated, abnormal) = (number < 15, number >= 20, number > 50);
        let process = ProcState::from_raw(number);
        let job = JobState::from_raw(number);
        assert_eq!((process.is_alive(), job.is_alive()), (alive, alive), "{number}");
        assert_eq!((process.is_terminated(), job.is_terminated()), (terminated, terminated), "{number}");
        assert_eq!((process.is_abnormal(), job.is_abnormal()), (abnormal, abnormal), "{number}");
    }
    assert!(ProcState::RUNNING.is_alive() && ProcState::TERMINATED.is_terminated());
    assert!(ProcState::CALLED_ABORT.is_abnormal() && !ProcState::TERMINATED.is_abnormal());
}

/// Every flag of the table is one of `named`, and the other way round.
fn flags_match_table<F: Flags<Bits: Into<u64>>>(c_type: &str, empty_or_mask: &[(&str, u64)]) {
    let mut of_table: Vec<_> = constants_of(c_type);
    of_table.retain(|(name, bits)| !empty_or_mask.contains(&(name.as_str(), *bits)));
    let named = F::FLAGS.iter().filter(|flag| flag.is_named());
    let mut ours: Vec<_> = named.map(|flag| flag.value().bits().into()).collect();
    ours.sort_unstable();
    of_table.sort_unstable_by_key(|(_, bits)| *bits);
    assert_eq!(ours, of_table.iter().map(|(_, bits)| *bits).collect::<Vec<_>>(), "{c_type}");
}

#[test]
fn every_flag_of_the_table_has_its_bit() {
    flags_match_table::<InfoFlags>("pmix_info_directives_t", &[("PMIX_INFO_DIR_RESERVED", 0xffff_0000)]);
    flags_match_table::<IofChannels>("pmix_iof_channel_t", &[("PMIX_FWD_NO_CHANNELS", 0)]);
    flags_match_table::<Locality>("pmix_locality_t", &[("PMIX_LOCALITY_UNKNOWN", 0)]);
    flags_match_table::<DeviceTypes>("pmix_device_type_t", &[("PMIX_DEVTYPE_UNKNOWN", 0)]);
    flags_match_table::<StorageMedium>("pmix_storage_medium_t", &[]);
    flags_match_table::<StorageAccessibility>("pmix_storage_accessibility_t", &[]);
    flags_match_table::<StoragePersistence>("pmix_storage_persistence_t", &[]);
    flags_match_table::<StorageAccessType>("pmix_storage_access_type_t", &[]);
    assert_eq!(InfoFlags::DIR_RESERVED.bits(), 0xffff_0000);
    assert_eq!((IofChannels::NONE.bits(), Locality::UNKNOWN.bits(), DeviceTypes::UNKNOWN.bits()), (0, 0, 0));
}

#[test]
fn flags_print_their_names() {
    assert_eq!((InfoFlags::REQUIRED | InfoFlags::QUALIFIER).to_string(), "REQUIRED | QUALIFIER");
    assert_eq!(IofChannels::ALL.to_string(), "ALL");
    assert_eq!((IofChannels::STDOUT | IofChannels::STDERR).to_string(), "STDOUT | STDERR");
    assert_eq!(StorageAccessType::RDWR, StorageAccessType::RD | StorageAccessType::WR);
    assert_eq!(InfoFlags::empty().to_string(), "0x0");
    assert_eq!("0x0".parse(), Ok(InfoFlags::empty()));
    assert_eq!("STDIN|STDOUT".parse(), Ok(IofChannels::STDIN | IofChannels::STDOUT));
}

fn same_after_text<F>(flags: F)
where
    F: Flags + Display + Debug + PartialEq + FromStr<Err: Debug>,
{
    assert_eq!(flags.to_string().parse::<F>().unwrap(), flags);
}

proptest! {
    #[test]
    fn gen_03_gen_18_every_status_survives_text(number: i32) {
        let status = Status::from_raw(number);
        prop_assert_eq!(status.to_raw(), number);
        prop_assert_eq!(status.to_string().parse(), Ok(status));
        prop_assert_eq!(number.to_string().parse(), Ok(status));
    }

    #[test]
    fn gen_03_gen_18_statuses_near_the_table_survive_text(number in -3200..100) {
        let status = Status::from_raw(number);
        prop_assert_eq!(status.to_string().parse(), Ok(status));
    }

    #[test]
    fn gen_18_unknown_flags_survive_text(bits: u64) {
        let [b0, b1, b2, b3, ..] = bits.to_le_bytes();
        let (low, half) = (u16::from_le_bytes([b0, b1]), u32::from_le_bytes([b0, b1, b2, b3]));
        same_after_text(InfoFlags::from_bits_retain(half));
        same_after_text(IofChannels::from_bits_retain(low));
        same_after_text(Locality::from_bits_retain(low));
        same_after_text(StorageAccessType::from_bits_retain(low));
        same_after_text(DeviceTypes::from_bits_retain(bits));
        same_after_text(StorageMedium::from_bits_retain(bits));
        same_after_text(StorageAccessibility::from_bits_retain(bits));
        same_after_text(StoragePersistence::from_bits_retain(bits));
        prop_assert_eq!(InfoFlags::from_bits_retain(half).bits(), half);
    }

    #[test]
    fn any_text_is_parsed_without_panic(text: String) {
        let _ = text.parse::<Scope>();
        let _ = text.parse::<Status>();
        let _ = text.parse::<IofChannels>();
        let shown = |c: char| !c.is_control() && !matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        prop_assert_eq!(KeyName::new(&text).is_ok(), (1..=511).contains(&text.len()) && text.chars().all(shown));
    }
}
