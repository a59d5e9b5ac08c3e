//! Fences that each collect a kilobyte more of every rank, over four simulated nodes: the medians of the first and of the last
//! quarter of 200. Prints a JSON line for each number of ranks.
//!
//! ```text
//! cargo bench -p pmix-tests --bench grow                                # 5 turns
//! PMIXRUN_BEFORE=PATH cargo bench -p pmix-tests --bench grow -- 9       # so many, in turn with another pmixrun
//! ```

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::process::Command;

use pmix_tests::{pmixrun, rank_program, run};

const RANKS: [usize; 3] = [4, 8, 32];
const ROUNDS: &str = "200";

fn main() {
    let turns: usize = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(5);
    let dir = tempfile::tempdir().unwrap();
    let before = std::env::var_os("PMIXRUN_BEFORE");
    let rank = rank_program();
    for ranks in RANKS {
        let count = ranks.to_string();
        let args = ["--vnodes", "4", "-n", &count, rank.to_str().unwrap(), "grow", ROUNDS];
        let (mut now, mut then) = (Vec::new(), Vec::new());
        for _ in 0..turns {
            let command = pmixrun(dir.path(), &args);
            if let Some(before) = &before {
                let mut other = Command::new(before);
                other.args(command.get_args());
                for (name, value) in command.get_envs() {
                    value.map(|value| other.env(name, value));
                }
                then.push(figures(other));
            }
            now.push(figures(command));
        }
        let [first, last] = medians(now);
        let former = before.is_some().then(|| medians(then));
        let ratios = former.map_or_else(String::new, |[begin, end]| {
            format!(r#","before_us":[{begin},{end}],"ratio":[{:.2},{:.2}]"#, first / begin, last / end)
        });
        println!(
            r#"{{"metric":"fence_collect_more","ranks":{ranks},"turns":{turns},"us":[{first},{last}],"last_to_first":{:.2}{ratios}}}"#,
            last / first
        );
    }
}

/// How long the first and the last fences of rank 0 took.
fn figures(command: Command) -> [f64; 2] {
    let (code, out, err) = run(command);
    assert_eq!(code, Some(0), "{out}{err}");
    let line = out.lines().find(|line| line.starts_with("fences took ")).unwrap();
    let mut numbers = line.split(' ').filter_map(|word| word.parse().ok());
    [numbers.next().unwrap(), numbers.next().unwrap()]
}

fn medians(figures: Vec<[f64; 2]>) -> [f64; 2] {
    [0, 1].map(|place| {
        let mut sorted: Vec<_> = figures.iter().map(|pair| pair[place]).collect();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    })
}
