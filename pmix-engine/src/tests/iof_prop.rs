//! Random output, with and without listeners: bytes of a channel keep their order, and what is missing is counted.

use std::collections::BTreeMap;

use pmix_types::message::{Push, Reply};
use pmix_types::{Directives, keys};
use proptest::prelude::*;

use super::super::upcall::Upcall;
use super::super::{Answer, Command, HostCall, UpcallId, UpcallRequest};
use super::harness::{Harness, With, all_of, proc};
use super::iof::{ERR, OUT, pull, text};

#[derive(Clone, Debug)]
enum Step {
    Write { rank: u32, stderr: bool, bytes: u8, drop_oldest: bool },
    Pull { buffering: u32, time: u32 },
    HostAnswers,
    Deregister,
    Wait { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..2u32, any::<bool>(), 0..30u8, any::<bool>())
            .prop_map(|(rank, stderr, bytes, drop_oldest)| Step::Write { rank, stderr, bytes, drop_oldest }),
        1 => (0..40u32, 0..3u32).prop_map(|(buffering, time)| Step::Pull { buffering, time }),
        2 => Just(Step::HostAnswers),
        1 => Just(Step::Deregister),
        1 => (0..3u64).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

/// Bytes written to each channel, and what came of them: bytes, or a number of lost ones.
#[derive(Debug, Default)]
struct Channel {
    written: Vec<u8>,
    read: Vec<u8>,
}

proptest! {
    #[test]
    fn iof_05_iof_06_iof_09_a_channel_keeps_its_order_and_nothing_is_lost_in_silence(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        const CACHE: u32 = 50;
        let mut t = Harness::new([Upcall::IofPull]);
        t.job("job", "0-1");
        let listener = t.connect(&proc("job", 0));
        let mut channels = BTreeMap::<_, Channel>::new();
        let (mut number, mut next_byte, mut lost) = (None::<u64>, 0u8, 0);
        let (mut pulling, mut upcalls) = (None, Vec::<UpcallId>::new());
        for step in steps.into_iter().chain([Step::HostAnswers, Step::Deregister]) {
            let mut out = Vec::new();
            match step {
                Step::Write { rank, stderr, bytes, drop_oldest } => {
                    let (source, on) = (proc("job", rank), if stderr { ERR } else { OUT });
                    let data: String = (0..bytes).map(|_| {
                        next_byte = (next_byte + 1) % 100;
                        char::from(next_byte)
                    }).collect();
                    channels.entry((rank, stderr)).or_default().written.extend(data.bytes());
                    let mut output = text(&source, on, &data);
                    output.info = Directives::new().with(&keys::IOF_CACHE_SIZE, CACHE);
                    if drop_oldest {
                        output.info = output.info.with(&keys::IOF_DROP_OLDEST, true);
                    }
                    t.call(HostCall::IofDeliver(output));
                }
                Step::Pull { buffering, time } if pulling.is_none() && number.is_none() => {
                    let wish = pull([all_of("job")], OUT | ERR)
                        .with(&keys::IOF_BUFFERING_SIZE, buffering)
                        .with(&keys::IOF_BUFFERING_TIME, time);
                    pulling = Some(t.ask(&listener, wish));
                }
                Step::HostAnswers => {
                    for upcall in std::mem::take(&mut upcalls) {
                        t.answer(upcall, Ok(Answer::Done));
                        out.extend(t.drain());
                    }
                }
                Step::Deregister if number.is_some() => {
                    let number = number.take().unwrap();
                    t.ask(&listener, pmix_types::message::IofDeregister::new(number).into());
                }
                Step::Wait { seconds } => t.advance(seconds),
                _ => {}
            }
            out.extend(t.drain());
            for command in out {
                match command {
                    Command::Push { push: Push::Output { output, .. }, .. } => {
                        let key = (output.source.rank.to_raw(), output.channels == ERR);
                        channels.get_mut(&key).unwrap().read.extend(&output.data);
                    }
                    Command::Push { push: Push::OutputLost { bytes, .. }, .. } => lost += bytes,
                    Command::Reply { result: Ok(Reply::Registered(registered)), .. } => {
                        (number, pulling) = (Some(registered), None);
                    }
                    Command::Upcall { id, request: UpcallRequest::IofPull(_), .. } => upcalls.push(id),
                    Command::Reply { result: Ok(Reply::Done), .. } | Command::Return { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        for upcall in upcalls {
            t.answer(upcall, Ok(Answer::Done));
            t.drain();
        }
        // who asks last gets what is still kept
        let to = t.ask(&listener, pull([all_of("job")], OUT | ERR));
        let (upcall, ..) = super::iof::asked(&mut t, true);
        t.answer(upcall, Ok(Answer::Done));
        t.ok(to);
        for command in t.drain() {
            match command {
                Command::Push { push: Push::Output { output, .. }, .. } => {
                    let key = (output.source.rank.to_raw(), output.channels == ERR);
                    prop_assert!(output.data.len() <= CACHE as usize);
                    channels.get_mut(&key).unwrap().read.extend(&output.data);
                }
                Command::Push { push: Push::OutputLost { bytes, .. }, .. } => lost += bytes,
                other => panic!("{other:?}"),
            }
        }
        let (mut written, mut read) = (0, 0);
        for channel in channels.values() {
            (written, read) = (written + channel.written.len(), read + channel.read.len());
            // what was read is what was written with gaps
            let mut rest = channel.written.iter();
            prop_assert!(channel.read.iter().all(|byte| rest.any(|other| other == byte)), "{:?}", channel);
        }
        prop_assert_eq!(written as u64, read as u64 + lost);
        t.lose(&listener);
        let (upcall, ..) = super::iof::asked(&mut t, false);
        t.answer(upcall, Ok(Answer::Done));
        t.finish();
    }
}
