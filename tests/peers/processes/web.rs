//! `pmix web`: for another user, and in a browser.

use pmix_tests::{Browser, OtherUser, Web, on_path, run};

#[tokio::test]
async fn sec_01_another_user_is_told_nothing_without_the_token() {
    let (Some(alice), Some(bash)) = (OtherUser::second(), on_path("bash", "apt-get install bash")) else {
        return;
    };
    let web = Web::start().await;
    let (_, port) = web.address().split_once(':').unwrap();
    let ask = "exec 3<>/dev/tcp/127.0.0.1/$1; printf 'GET /events HTTP/1.0\\r\\nHost: %s\\r\\n\\r\\n' $2 >&3; cat <&3";
    let mut command = alice.command(bash);
    command.args(["-c", ask, "bash", port, web.name()]);
    let (code, out, err) = run(command);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("HTTP/1.0 401 ") && out.contains("the token is missing or wrong"), "{out}");
    assert!(!out.contains("event: "), "{out}");
    // nor is it on the command line, where others see it
    let line = std::fs::read_to_string(format!("/proc/{}/cmdline", web.pid())).unwrap();
    assert!(!line.contains(web.token()));
    let err = web.end().await;
    assert!(err.contains("a request was refused: the token is missing or wrong"), "{err}");
}

/// The colour of a rank's square, and that of its group.
const COLOURS: &str = "
    const canvas = document.querySelector('canvas');
    const pixel = [...canvas.getContext('2d').getImageData(3, 3, 1, 1).data].slice(0, 3);
    const named = getComputedStyle(document.documentElement).getPropertyValue('--connected').trim();
    const number = parseInt(named.slice(1), 16);
    return JSON.stringify(pixel) === JSON.stringify([number >> 16, (number >> 8) & 255, number & 255]) && named;";

#[tokio::test]
async fn a_browser_shows_jobs_waits_and_events_in_light_and_dark() {
    let Some(browser) = Browser::start() else { return };
    let web = Web::start().await;
    browser.show((800, 900), false);
    browser.open(&web.url());
    browser.until("return document.body.innerText.includes('4 ranks on 1 node')");
    browser.until("return document.body.innerText.includes('4 connected')");
    browser.until("return document.getElementById('waits').innerText.includes('fence')");
    assert_eq!(browser.run("return location.hash"), "", "the token does not stay in the address");
    let (code, out, err) = run(web.pmix(&["submit", "-n", "2", "sh", "-c", "exit 3"]));
    assert_eq!(code, Some(3), "{out}{err}");
    browser.until("return document.getElementById('events').innerText.includes('EVENT_JOB_END')");
    let mut colours = Vec::new();
    for (size, is_dark, name) in [
        ((800, 900), false, "light"),
        ((1600, 700), false, "wide"),
        ((800, 900), true, "dark"),
        ((1600, 700), true, "web"),
    ] {
        browser.show(size, is_dark);
        browser.until("return document.body.clientWidth === window.innerWidth || document.body.clientWidth + 15 >= window.innerWidth");
        // it is drawn anew some time after the scheme has changed
        browser.until(&format!("return typeof (() => {{ {COLOURS} }})() === 'string'"));
        let colour = browser.run(COLOURS);
        assert!(colour.is_string(), "{name}: {colour}");
        colours.push(colour);
        let wide = browser.run("return document.documentElement.scrollWidth <= window.innerWidth");
        assert_eq!(wide, true, "{name}: it is too wide");
        let picture = browser.picture();
        assert!(picture.starts_with(b"\x89PNG"), "{name}");
        if let Some(dir) = std::env::var_os("PMIX_PICTURES") {
            std::fs::write(std::path::Path::new(&dir).join(format!("{name}.png")), picture).unwrap();
        }
    }
    assert!(colours[0] == colours[1] && colours[0] != colours[2] && colours[2] == colours[3], "{colours:?}");
    // what lies below the pointer is told in words
    let told = "const canvas = document.querySelector('canvas');
        canvas.focus();
        for (const key of ['ArrowRight', 'ArrowRight']) canvas.dispatchEvent(new KeyboardEvent('keydown', {key}));
        return document.querySelector('.at').innerText";
    let told = browser.run(told);
    assert!(told.as_str().unwrap().starts_with("rank 1 on "), "{told}");
    // names are text, whatever they contain; many ranks are drawn at once, up to the last
    let many = "showState({server: 's', host: 'h', states: [{name: 'RUNNING', group: 'running'}, {name: 'ABORTED', group: 'failed'}],
        jobs: [{nspace: '<img src=x onerror=\"document.title=1\">', ranks: [[0, 10000]], nodes: [['n', 10000]],
        states: Array.from({length: 5000}, (_, i) => [i % 2, 2])}]});
        const job = [...cards.values()][0], scale = window.devicePixelRatio || 1;
        const place = [9999 % job.columns, Math.floor(9999 / job.columns)].map((at) => Math.round((at * job.size + 1) * scale));
        const drawn = job.canvas.getContext('2d').getImageData(place[0], place[1], 1, 1).data[3] > 0;
        return [drawn, document.querySelectorAll('img').length, document.querySelector('canvas').clientHeight]";
    let drawn = browser.run(many);
    assert_eq!((&drawn[0], &drawn[1]), (&true.into(), &0.into()), "{drawn}");
    assert!(drawn[2].as_f64().unwrap() < 400.0, "{drawn}");
    // the end of the command is told
    web.end().await;
    browser.until("return document.getElementById('live').className === 'bad'");
}
