//! `pmix top`: jobs and ranks as they run, on a whole terminal.

mod draw;
mod model;
mod screen;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use futures::StreamExt;
use futures::future::{BoxFuture, join_all};
use futures::stream::FuturesUnordered;
use pmix_tool::watch::{JobsWatch, WatchUpdate};
use pmix_tool::{Error, Nspace, Tool, ToolBuilder};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::completions;
use super::named::about;
use super::refresh::Refresh;
use super::selection::{Selection, leave};
use super::signals::NOT_RECEIVED;
use super::{Console, Trouble, color};
use draw::Palette;
use model::{Model, Problems, Server, View};
use screen::{Painter, Picture, Screen};

/// How often servers are looked for that have started, and at least whether the terminal is there.
const LOOK: Duration = Duration::from_secs(2);

/// Shows jobs and ranks as they run: processor time, memory, collectives, output, and the slowest rank
///
/// It takes the whole terminal until q is pressed. By default it shows the jobs of all live servers of this user on this node, including servers that start later; a
/// selected server must already be running. Keys: Up and Down select a line, Enter opens a job, Esc goes back, s sorts by the next column, ? shows the other keys.
///
/// CPU% is current processor use (100 is one full processor); MEM is resident memory; COLL/S are PMIx collectives per second (fences, connects,
/// groups; MPI collectives are not counted), OUT/S is what is written to standard output and error in a second, WAIT% is the share of time spent waiting in
/// collectives. SLOWEST is the rank of a job that waits least: the others wait for it. - means unknown.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 after q, or when the selected server has ended; 1 if standard output is no terminal (`pmix ps --watch` needs none), or if the selected server \
                        could not be queried; 2 for an invalid command line; 128 plus the number of a signal that ended it."
)]
pub(super) struct Args {
    /// Show only these jobs
    #[arg(value_name = "NAMESPACE", add = completions::jobs())]
    jobs: Vec<Nspace>,

    /// Seconds between two updates, at least 0.1
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = pmix_program::seconds)]
    every: Duration,

    #[command(flatten)]
    selection: Selection,
}

/// What is waited for.
enum TopEvent {
    /// The server at this address was attached to, or not.
    Attached(String, Result<AttachedServer, Error>),
    /// The watch of the server of this number has news, or ends.
    News(usize, JobsWatch, Option<Result<WatchUpdate, Error>>),
}

struct AttachedServer {
    tool: Tool,
    name: String,
    uri: String,
    watch: JobsWatch,
}

/// What is shown, and where it comes from.
struct Top {
    args: Args,
    model: Model,
    waiting: FuturesUnordered<BoxFuture<'static, TopEvent>>,
    /// By the number of the server; `None` for one that has ended.
    tools: Vec<Option<Tool>>,
    /// Addresses of the servers that are there and are attached to, are being attached to, or have refused.
    known: BTreeSet<String>,
    /// An answer that no picture has shown.
    news: Option<Refresh>,
}

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    if console.width.is_none() {
        let message = "top: standard output is no terminal; `pmix ps --watch` prints changes as lines";
        return Err(Trouble::Other(message.into()));
    }
    let mut signals = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()]
        .map(|kind| signal(kind).map(|stream| (kind.as_raw_value(), stream)))
        .into_iter()
        .collect::<io::Result<Vec<_>>>()
        .map_err(about(NOT_RECEIVED))?;
    let mut top = Top::new(args);
    tokio::select! {
        biased;
        number = any(&mut signals) => return Ok(after(number)),
        begun = top.begin() => begun?,
    }
    let screen = Screen::open().map_err(unusable)?;
    let mut painter = Painter::start().map_err(unusable)?;
    let outcome = top.show(&mut signals, &mut painter).await;
    screen.close(painter).await;
    join_all(top.tools.into_iter().flatten().map(leave)).await;
    outcome
}

impl Top {
    fn new(args: Args) -> Self {
        let waiting = FuturesUnordered::new();
        Self { args, model: Model::default(), waiting, tools: Vec::new(), known: BTreeSet::new(), news: None }
    }

    /// Attaches to the server selected, or begins with those that are there.
    async fn begin(&mut self) -> Result<(), Trouble> {
        if self.args.selection.is_any() {
            self.look();
        } else {
            let attached = self.attach(self.args.selection.builder()).await?;
            self.add(attached);
        }
        Ok(())
    }

    /// Begins to attach to servers that have started.
    fn look(&mut self) {
        let servers = match Selection::live() {
            Ok(servers) => servers,
            Err(error) => return self.model.problems.tell(Problems::SEARCH, error.to_string()),
        };
        self.model.problems.forget(Problems::SEARCH);
        self.known.retain(|uri| servers.iter().any(|server| server.uri == *uri));
        for server in servers {
            let uri = server.uri.clone();
            if self.known.insert(uri.clone()) {
                let attaching = self.attach(self.args.selection.builder().server(server));
                self.waiting.push(Box::pin(async move { TopEvent::Attached(uri, attaching.await) }));
            }
        }
    }

    fn attach(&self, builder: ToolBuilder) -> impl Future<Output = Result<AttachedServer, Error>> + use<> {
        let (jobs, period) = (self.args.jobs.clone(), self.args.every);
        async move {
            let tool = builder.connect().await?;
            let server = tool.server()?;
            let (name, uri) = (server.proc_id().nspace.to_string(), server.uri().to_owned());
            let watch = tool.watch_jobs().only(jobs).period(period).usage().start().await?;
            Ok(AttachedServer { tool, name, uri, watch })
        }
    }

    /// Gives a server the number of one that has ended, or a new one.
    fn add(&mut self, AttachedServer { tool, name, uri, watch }: AttachedServer) {
        self.model.problems.keep(&self.known);
        let server = Server { name, uri, ..Server::default() };
        let number = match self.tools.iter().position(Option::is_none) {
            Some(number) => number,
            None => {
                self.tools.push(None);
                self.model.servers.push(Server::default());
                self.tools.len() - 1
            }
        };
        self.tools[number] = Some(tool);
        self.model.servers[number] = server;
        self.wait(number, watch);
    }

    fn wait(&self, number: usize, mut watch: JobsWatch) {
        self.waiting.push(Box::pin(async move {
            let news = watch.next().await;
            TopEvent::News(number, watch, news)
        }));
    }

    /// Draws until the user quits, a signal comes, or the selected server ends.
    async fn show(
        &mut self,
        signals: &mut [(i32, Signal)],
        painter: &mut Painter,
    ) -> Result<ExitCode, Trouble> {
        let picture = Picture::default();
        let mut terminal = Terminal::new(CrosstermBackend::new(picture.clone()))?;
        let palette = Palette::new(color::is_on());
        let mut input = screen::input();
        let mut looks = interval_at(Instant::now() + LOOK, LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_stale = true;
        loop {
            tokio::select! {
                biased;
                number = any(signals) => return Ok(after(number)),
                event = input.recv() => match event {
                    Some(Ok(event)) => {
                        let page = draw::page(terminal.size().map_err(unusable)?.height);
                        if react(&mut self.model, &event, page) {
                            return Ok(ExitCode::SUCCESS);
                        }
                    }
                    Some(Err(error)) => return Err(Trouble::Other(format!("top: cannot read keys: {error}"))),
                    None => return Ok(ExitCode::SUCCESS),
                },
                room = painter.room(), if is_stale => {
                    let room = room?;
                    terminal.draw(|frame| draw::draw(frame, &self.model, palette))?;
                    let picture = picture.take();
                    if let Some(news) = self.news.take() {
                        news.is_shown(Some(picture.len()));
                    }
                    room.send(picture);
                    is_stale = false;
                    continue;
                }
                Some(happened) = self.waiting.next() => {
                    self.take(happened);
                    if !self.args.selection.is_any() && self.waiting.is_empty() {
                        return self.end();
                    }
                }
                // even if nothing is new, a picture is written, which fails if the terminal is gone
                _ = looks.tick() => if self.args.selection.is_any() {
                    self.look();
                },
            }
            is_stale = true;
        }
    }

    /// The selected server has ended.
    fn end(&self) -> Result<ExitCode, Trouble> {
        match self.model.problems.last() {
            None => Ok(ExitCode::SUCCESS),
            Some(problem) => Err(Trouble::Other(problem.to_owned())),
        }
    }

    /// A server is not attached to. The next look tries it again, unless it has refused.
    fn fails(&mut self, uri: &str, error: &Error) {
        self.model.problems.tell(uri, error.to_string());
        if error.is_timeout() || error.is_lost_connection() {
            self.known.remove(uri);
        }
    }

    fn take(&mut self, happened: TopEvent) {
        let (number, watch, news) = match happened {
            TopEvent::Attached(_, Ok(attached)) => return self.add(attached),
            TopEvent::Attached(uri, Err(error)) => return self.fails(&uri, &error),
            TopEvent::News(number, watch, news) => (number, watch, news),
        };
        let Some(server) = self.model.servers.get_mut(number) else { return };
        match news {
            Some(Ok(_)) => {
                // it answers again
                self.model.problems.forget(&server.uri);
                server.take(&watch);
                self.news = Some(Refresh::of(&watch));
                self.wait(number, watch);
            }
            // it is asked again
            Some(Err(error)) if error.is_timeout() => {
                self.model.problems.tell(&server.uri, error.to_string());
                self.wait(number, watch);
            }
            Some(Err(error)) => {
                let gone = Server { is_gone: true, ..Server::default() };
                let Server { uri, .. } = std::mem::replace(server, gone);
                match error.is_server_stopped() {
                    // that its jobs have ended is no problem, and what went wrong before is over
                    true => self.model.problems.forget(&uri),
                    false => self.fails(&uri, &error),
                }
                // its connection ends with it
                drop(self.tools.get_mut(number).and_then(Option::take));
            }
            None => {}
        }
    }
}

/// Does what a key says; whether that is to quit.
fn react(model: &mut Model, event: &Event, page: usize) -> bool {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press | KeyEventKind::Repeat, .. }) =
        event
    else {
        return false;
    };
    let page = isize::try_from(page.max(1)).unwrap_or(isize::MAX);
    if model.has_help {
        model.has_help = false;
        return *code == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL);
    }
    match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => return true,
        KeyCode::Char('q') => return true,
        KeyCode::Up | KeyCode::Char('k') => model.step(-1),
        KeyCode::Down | KeyCode::Char('j') => model.step(1),
        KeyCode::PageUp => model.step(-page),
        KeyCode::PageDown => model.step(page),
        KeyCode::Home => model.step(isize::MIN),
        KeyCode::End => model.step(isize::MAX),
        KeyCode::Enter => model.open(),
        KeyCode::Esc | KeyCode::Backspace if model.view != View::Jobs => model.close(),
        KeyCode::Char('s') => model.sort = model.sort.next(),
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => model.has_help = true,
        _ => {}
    }
    false
}

/// Not standard output, which is a terminal, but the one that controls this process.
fn unusable(error: io::Error) -> Trouble {
    Trouble::Other(format!("top: cannot use the terminal: {error}"))
}

fn after(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(signal).map_or(u8::MAX, |signal| signal.saturating_add(128)))
}

/// The next signal that is to end it.
async fn any(signals: &mut [(i32, Signal)]) -> i32 {
    let next = signals.iter_mut().map(|(number, stream)| {
        Box::pin(async move {
            stream.recv().await;
            *number
        })
    });
    futures::future::select_all(next).await.0
}
