#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| (pmix_fuzz::target("native-conversation").run)(input));
