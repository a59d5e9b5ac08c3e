use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use pmix_test_wait::block_until;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::commands::executable;
use crate::peers::{mention, on_path, outside_allocations};
use crate::programs::directory;

/// Several hosts on this machine, made of namespaces: each has its own network, name, processes, `/tmp`, `/run` and
/// `/dev/shm`, and shares all other files, as on a cluster with a network file system. They are called `n0`, `n1` and so
/// on. No address of theirs can be reached from outside. What runs on a host ends with it, and all hosts when this is
/// dropped.
///
/// Programs for them must be where cargo puts them, since `/tmp` is empty.
#[derive(Debug)]
pub struct Hosts {
    hosts: Vec<Host>,
    has_ssh: bool,
    switch: Child,
    munged: Option<Child>,
    dir: TempDir,
}

#[derive(Debug)]
struct Host {
    /// Outside; with it ends the first process of the host, and with that one all others.
    outer: Child,
    /// The first process, as it is called outside.
    first: u32,
    /// What is on it of its own.
    own: BTreeSet<String>,
}

/// Readies a host's files; arguments are its name, the common directory, and what is to be seen below `/tmp`.
const READY_HOST: &str = r#"
hostname "$1"
mount --make-rprivate /
mount -t tmpfs -o mode=1777 t /dev/shm
mount --bind "$2/hosts" /etc/hosts
mount -t tmpfs -o mode=755 t /run
mkdir -p /run/munge /run/sshd /run/slurmd
mount --bind "$2/munge" /run/munge
case $3 in
/tmp/*) mount --bind "$3" /mnt; mount -t tmpfs -o mode=1777 t /tmp; mkdir -p "$3"; mount --move /mnt "$3" ;;
*) mount -t tmpfs -o mode=1777 t /tmp ;;
esac
ip link set lo up
echo ready
exec sleep infinity
"#;

impl Hosts {
    /// So many hosts with Slurm; `None`, with a line on standard error, where these cannot be.
    ///
    /// # Panics
    /// If `PMIX_REQUIRE_PEERS` is set and a program is missing, or if Slurm does not start.
    pub fn with_slurm(count: usize) -> Option<Self> {
        let slurm = "apt-get install slurm-wlm munge";
        let munged = on_path("munged", slurm)?;
        let [controller, daemon] = [on_path("slurmctld", slurm)?, on_path("slurmd", slurm)?];
        let mut hosts = Self::start(count)?;
        hosts.start_munge(&munged);
        let config = hosts.dir.path().join("slurm.conf");
        fs::write(&config, hosts.slurm_config()).unwrap();
        fs::create_dir(hosts.dir.path().join("state")).unwrap();
        hosts.serve(0, Command::new(controller).arg("-D").arg("-f").arg(&config));
        for host in 0..count {
            hosts.serve(host, Command::new(&daemon).arg("-D").arg("-f").arg(&config));
        }
        hosts.until("Slurm", || {
            let output = hosts.command(0, "sinfo").args(["-h", "-o", "%D %t"]).output().unwrap();
            String::from_utf8_lossy(&output.stdout).trim() == format!("{count} idle")
        });
        for host in 0..count {
            hosts.hosts[host].own = hosts.all_on(host);
        }
        Some(hosts)
    }

    /// So many hosts that can be reached by `ssh` from each other; `None`, with a line on standard error, where these cannot
    /// be.
    ///
    /// # Panics
    /// If `PMIX_REQUIRE_PEERS` is set and a program is missing, or if sshd does not start.
    pub fn with_ssh(count: usize) -> Option<Self> {
        let server = on_path("sshd", "apt-get install openssh-server")?;
        let mut hosts = Self::start(count)?;
        hosts.make_keys();
        hosts.has_ssh = true;
        (0..count).for_each(|host| hosts.serve_ssh(host, &server));
        (0..count).for_each(|host| hosts.until_reached(host));
        Some(hosts)
    }

    fn serve_ssh(&self, host: usize, server: &Path) {
        let config = self.dir.path().join("ssh/sshd_config");
        self.serve(host, Command::new(server).arg("-D").arg("-f").arg(config));
    }

    /// Waits until there is a way by `ssh` from the first host to this one, and remembers what is on it.
    fn until_reached(&mut self, host: usize) {
        let is_reached =
            || self.command(0, "ssh").args([&name(host), "true"]).output().unwrap().status.success();
        self.until("sshd", is_reached);
        self.hosts[host].own = self.all_on(host);
    }

    /// Takes a host off the network without a word: what it sends and what is sent to it is lost. Its processes go on.
    pub fn cut(&self, host: usize) {
        self.on_switch(&["set", &port(host), "nomaster"]);
    }

    /// Takes a host that was cut off back.
    pub fn mend(&self, host: usize) {
        self.on_switch(&["set", &port(host), "master", "br0"]);
        // a question for an address that is about to be given up would fail a connection that begins now: "No route to host"
        for host in 0..self.hosts.len() {
            must(self.command(host, "ip").args(["neigh", "flush", "all"]));
        }
    }

    /// Ends all processes of a host at once. Their connections are closed, unless it has been cut off before.
    pub fn kill(&mut self, host: usize) {
        self.kill_at_once(host);
        // it waits for the first process, with which all others have ended
        self.hosts[host].outer.wait().unwrap();
    }

    /// The same, without waiting for it.
    pub fn kill_at_once(&self, host: usize) {
        let first = Pid::from_raw(i32::try_from(self.hosts[host].first).unwrap()).unwrap();
        kill_process(first, Signal::KILL).unwrap();
    }

    /// Starts a host that was killed, with nothing in its own directories, and its sshd.
    ///
    /// # Panics
    /// If it was not killed.
    pub fn start_again(&mut self, host: usize) {
        let unshare = on_path("unshare", "apt-get install util-linux").unwrap();
        // with the last process of its network it goes by itself, but later
        drop(self.switch_command(&["del", &port(host)]).output());
        self.hosts[host] = self.new_host(&unshare, host);
        if self.has_ssh {
            let server = on_path("sshd", "apt-get install openssh-server").unwrap();
            self.serve_ssh(host, &server);
            self.until_reached(host);
        }
    }

    /// What is on a host beside its own: processes, files in its own directories, mounts, sockets that listen or are connected.
    /// What `sshd` and Slurm have there is its own.
    pub fn left_on(&self, host: usize) -> Vec<String> {
        self.all_on(host).difference(&self.hosts[host].own).cloned().collect()
    }

    fn all_on(&self, host: usize) -> BTreeSet<String> {
        let seen = |path: &str| PathBuf::from(format!("/proc/{}/{path}", self.hosts[host].first));
        let mut found = BTreeSet::new();
        for (pid, line) in self.processes_on(host) {
            if !line.contains("sshd") {
                found.insert(format!("process {pid}: {line}"));
            }
        }
        for dir in ["tmp", "run", "dev/shm"] {
            let entries = fs::read_dir(seen("root").join(dir)).unwrap().flatten();
            found.extend(entries.map(|entry| format!("/{dir}/{}", entry.file_name().to_string_lossy())));
        }
        let text = |path| fs::read_to_string(seen(path)).unwrap();
        found.extend(text("mounts").lines().map(|line| format!("mount {line}")));
        for family in ["net/tcp", "net/tcp6"] {
            for line in text(family).lines().skip(1) {
                let words: Vec<_> = line.split_whitespace().take(4).collect();
                let [_, local, remote, state] = words[..] else { panic!("{line}") };
                let is_of_ssh = [local, remote].iter().any(|end| end.ends_with(":0016"));
                if ["01", "0A"].contains(&state) && !is_of_ssh {
                    found.insert(format!("socket {local} {remote}"));
                }
            }
        }
        let of_unix = text("net/unix");
        let paths = of_unix.lines().filter_map(|line| line.split_whitespace().nth(7));
        found.extend(paths.map(|path| format!("socket {path}")));
        found
    }

    /// The processes of a host, as they are called outside, with their command lines.
    pub fn processes_on(&self, host: usize) -> Vec<(i32, String)> {
        let space = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let own = space(&self.hosts[host].first.to_string());
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let pid = entry.file_name().to_string_lossy().into_owned();
            let Ok(number) = pid.parse() else { continue };
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            // one that has ended and is not taken note of has none
            if own.is_some() && space(&pid) == own && !line.is_empty() {
                found.push((number, String::from_utf8_lossy(&line).replace('\0', " ")));
            }
        }
        found
    }

    fn start(count: usize) -> Option<Self> {
        on_path("ip", "apt-get install iproute2")?;
        let unshare = on_path("unshare", "apt-get install util-linux")?;
        let mut can = Command::new(&unshare);
        let can =
            can.args(["-n", "-u", "-m", "-p", "-f", "--mount-proc", "mount", "-t", "tmpfs", "t", "/run"]);
        if !can.output().unwrap().status.success() {
            // which no program to be installed would change
            mention("permission to make namespaces");
            return None;
        }
        let dir = tempfile::Builder::new().prefix("hosts-").tempdir_in(directory()).unwrap();
        let addresses = (0..count).map(|host| format!("{} {}\n", address(host), name(host)));
        fs::write(
            dir.path().join("hosts"),
            format!("127.0.0.1 localhost\n{}", addresses.collect::<String>()),
        )
        .unwrap();
        fs::create_dir(dir.path().join("munge")).unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        let bridge = "ip link add br0 type bridge; ip link set br0 up; echo ready; exec sleep infinity";
        let switch = started(Command::new(&unshare).args(["-n", "sh", "-euc", bridge]));
        let mut hosts = Self { hosts: Vec::new(), has_ssh: false, switch, munged: None, dir };
        for host in 0..count {
            let host = hosts.new_host(&unshare, host);
            hosts.hosts.push(host);
        }
        Some(hosts)
    }

    fn switch_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.switch.id().to_string(), "-n", "ip", "link"]).args(arguments);
        command
    }

    fn on_switch(&self, arguments: &[&str]) {
        must(&mut self.switch_command(arguments));
    }

    fn new_host(&self, unshare: &Path, host: usize) -> Host {
        let mut command = Command::new(unshare);
        command.args(["-n", "-u", "-m", "-p", "-f", "--mount-proc", "--kill-child=KILL", "sh", "-euc"]);
        // it complains when its first process is killed
        command.stderr(fs::File::create(self.log(host, OsStr::new("unshare"))).unwrap());
        let outer =
            started(command.args([READY_HOST, "host", &name(host)]).arg(self.dir.path()).arg(directory()));
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", outer.id())).unwrap();
        let first: u32 = children.trim().parse().unwrap();
        let (port, inside) = (port(host), first.to_string());
        // the same address after a new start, as the others remember it
        let address_inside = format!("02:00:00:77:00:{:02x}", host + 1);
        let inside_words = ["peer", "name", "eth0", "address", &address_inside, "netns", &inside];
        self.on_switch(&[&["add", &port, "type", "veth"], &inside_words[..]].concat());
        self.on_switch(&["set", &port, "master", "br0", "up"]);
        let inside = || {
            let mut command = Command::new("nsenter");
            command.args(["-t", &first.to_string(), "-n", "ip"]);
            command
        };
        must(inside().args(["addr", "add", &format!("{}/24", address(host)), "dev", "eth0"]));
        must(inside().args(["link", "set", "eth0", "up"]));
        Host { outer, first, own: BTreeSet::new() }
    }

    /// Closes the way between two hosts, which reach all others, and are told at once that they do not reach each other.
    pub fn separate(&self, one: usize, other: usize) {
        self.route("add", one, other);
    }

    /// Opens it again.
    pub fn reunite(&self, one: usize, other: usize) {
        self.route("del", one, other);
    }

    fn route(&self, what: &str, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            must(self.command(from, "ip").args(["route", what, "unreachable", &address(to)]));
        }
    }

    /// A command that runs a program on a host, with nothing of PMIx or of an allocation in its environment.
    pub fn command(&self, host: usize, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.hosts[host].first.to_string(), "-n", "-u", "-m", "-p", "--"]).arg(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.dir.path().join("bin").display()));
        command.env("HOSTNAME", name(host)).env("SLURM_CONF", self.dir.path().join("slurm.conf"));
        command.env_remove("TMPDIR").stdin(Stdio::null());
        outside_allocations(&mut command);
        command
    }

    /// The address of a host for the others.
    pub fn address(&self, host: usize) -> String {
        address(host)
    }

    /// A command that runs a program on the first host in an allocation of Slurm, which these options ask for.
    pub fn in_allocation(&self, options: &[&str], program: impl AsRef<OsStr>) -> Command {
        let mut command = self.command(0, "salloc");
        command.arg("--quiet").args(options).arg(program);
        command
    }

    /// A directory that all hosts share.
    pub fn shared(&self) -> &Path {
        self.dir.path()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.hosts.len()
    }

    /// Runs a service on a host, for as long as there is the host.
    fn serve(&self, host: usize, service: &Command) {
        let log = fs::File::create(self.log(host, service.get_program())).unwrap();
        let mut command = self.command(host, service.get_program());
        command.args(service.get_args()).stdout(log.try_clone().unwrap()).stderr(log);
        // the host ends it
        drop(command.spawn().unwrap());
    }

    fn log(&self, host: usize, program: &OsStr) -> PathBuf {
        let program = Path::new(program).file_name().unwrap().to_string_lossy();
        self.dir.path().join(format!("{program}.{}.log", name(host)))
    }

    fn until(&self, what: &str, is_ready: impl Fn() -> bool) {
        block_until(format!("{what} is ready"), || {
            if is_ready() {
                return Ok(());
            }
            let logs = self.dir.path().read_dir().unwrap().flatten().map(|entry| entry.path());
            let logs = logs.filter(|path| path.extension() == Some(OsStr::new("log")));
            let said = |log: &Path| fs::read_to_string(log).unwrap_or_default();
            Err(logs.map(|log| format!("{}:\n{}", log.display(), said(&log))).collect::<Vec<_>>())
        });
    }

    fn start_munge(&mut self, program: &Path) {
        let file = |name: &str| self.dir.path().join("munge").join(name);
        fs::write(file("key"), [7; 64]).unwrap();
        fs::set_permissions(file("key"), Permissions::from_mode(0o600)).unwrap();
        let mut command = Command::new(program);
        command.args(["--force", "--foreground"]).arg("--socket").arg(file("munge.socket.2"));
        for (option, name) in [("key", "key"), ("log", "log"), ("pid", "pid"), ("seed", "seed")] {
            command.arg(format!("--{option}-file={}", file(name).display()));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.munged = Some(command.spawn().unwrap());
        self.until("munged", || file("munge.socket.2").exists());
    }

    fn slurm_config(&self) -> String {
        let dir = self.dir.path().display();
        let last = self.hosts.len() - 1;
        let nodes =
            (0..=last).map(|host| format!("NodeName={} CPUs=2 RealMemory=500 State=UNKNOWN\n", name(host)));
        // everything that would need an accounting database or control groups is off
        format!(
            "ClusterName=tests\nSlurmctldHost=n0\nSlurmUser=root\nMpiDefault=none\nReturnToService=2\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n\
             AuthType=auth/munge\nAuthInfo=socket=/run/munge/munge.socket.2\n\
             StateSaveLocation={dir}/state\nSlurmdSpoolDir=/run/slurmd\n\
             SlurmctldPidFile=/run/slurmctld.pid\nSlurmdPidFile=/run/slurmd.pid\n\
             {}PartitionName=p Nodes=n[0-{last}] Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:16\n",
            nodes.collect::<String>()
        )
    }

    /// One key for all hosts, and an `ssh` that uses it; the user's own settings are not touched.
    fn make_keys(&self) {
        let dir = self.dir.path().join("ssh");
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
        must(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(dir.join("key")));
        let at = dir.display();
        let path = format!("{}/bin:{}", self.dir.path().display(), std::env::var("PATH").unwrap_or_default());
        // a shell that is not the first one does not read the user's settings
        let server = format!(
            "HostKey {at}/key\nAuthorizedKeysFile {at}/key.pub\nPermitRootLogin prohibit-password\nStrictModes no\n\
             UsePAM no\nMaxStartups 200\nPidFile none\nAcceptEnv *\n\
             SetEnv SHLVL=1 \"PATH={path}\"\n"
        );
        fs::write(dir.join("sshd_config"), server).unwrap();
        let client = format!(
            "Host *\n  IdentityFile {at}/key\n  UserKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n  LogLevel ERROR\n"
        );
        fs::write(dir.join("config"), client).unwrap();
        let ssh = on_path("ssh", "apt-get install openssh-client").unwrap();
        let wrapper = format!("#!/bin/sh\nexec {} -F {at}/config \"$@\"\n", ssh.display());
        executable(&self.dir.path().join("bin/ssh"), &wrapper);
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let hosts = self.hosts.iter_mut().map(|host| &mut host.outer);
        for process in hosts.chain(self.munged.as_mut()).chain([&mut self.switch]) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn name(host: usize) -> String {
    format!("n{host}")
}

/// Its end of the switch.
fn port(host: usize) -> String {
    format!("v{host}")
}

fn address(host: usize) -> String {
    format!("10.77.0.{}", host + 1)
}

/// Starts a process that says when it is ready, and then stays.
fn started(command: &mut Command) -> Child {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "ready\n", "{command:?}");
    child
}

fn must(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}
