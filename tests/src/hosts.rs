use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::peers::{mention, on_path};
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

/// How long services may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

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
        Some(hosts)
    }

    /// So many hosts that can be reached by `ssh` from each other; `None`, with a line on standard error, where these cannot
    /// be.
    ///
    /// # Panics
    /// If `PMIX_REQUIRE_PEERS` is set and a program is missing, or if sshd does not start.
    pub fn with_ssh(count: usize) -> Option<Self> {
        let server = on_path("sshd", "apt-get install openssh-server")?;
        let hosts = Self::start(count)?;
        hosts.make_keys();
        for host in 0..count {
            let config = hosts.dir.path().join("ssh/sshd_config");
            hosts.serve(host, Command::new(&server).arg("-D").arg("-f").arg(config));
        }
        hosts.until("sshd", || {
            (0..count).all(|host| {
                hosts.command(0, "ssh").args([&name(host), "true"]).output().unwrap().status.success()
            })
        });
        Some(hosts)
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
        let mut hosts = Self { hosts: Vec::new(), switch, munged: None, dir };
        for host in 0..count {
            hosts.add(&unshare, host);
        }
        Some(hosts)
    }

    fn add(&mut self, unshare: &Path, host: usize) {
        let mut command = Command::new(unshare);
        command.args(["-n", "-u", "-m", "-p", "-f", "--mount-proc", "--kill-child=KILL", "sh", "-euc"]);
        let outer =
            started(command.args([READY_HOST, "host", &name(host)]).arg(self.dir.path()).arg(directory()));
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", outer.id())).unwrap();
        let first: u32 = children.trim().parse().unwrap();
        let switch = self.switch.id().to_string();
        let on_switch = |arguments: &[&str]| {
            let mut command = Command::new("nsenter");
            must(command.args(["-t", &switch, "-n", "ip", "link"]).args(arguments));
        };
        let (port, inside) = (format!("v{host}"), first.to_string());
        on_switch(&["add", &port, "type", "veth", "peer", "name", "eth0", "netns", &inside]);
        on_switch(&["set", &port, "master", "br0", "up"]);
        self.hosts.push(Host { outer, first });
        must(self.command(host, "ip").args(["addr", "add", &format!("{}/24", address(host)), "dev", "eth0"]));
        must(self.command(host, "ip").args(["link", "set", "eth0", "up"]));
    }

    /// A command that runs a program on a host, with nothing of PMIx in its environment.
    pub fn command(&self, host: usize, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.hosts[host].first.to_string(), "-n", "-u", "-m", "-p", "--"]).arg(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.dir.path().join("bin").display()));
        command.env("HOSTNAME", name(host)).env("SLURM_CONF", self.dir.path().join("slurm.conf"));
        command.env_remove("TMPDIR").stdin(Stdio::null());
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
        let began = Instant::now();
        while !is_ready() {
            if began.elapsed() > PATIENCE {
                let logs = self.dir.path().read_dir().unwrap().flatten().map(|entry| entry.path());
                let logs = logs.filter(|path| path.extension() == Some(OsStr::new("log")));
                let said =
                    logs.map(|log| format!("{}:\n{}", log.display(), fs::read_to_string(&log).unwrap()));
                panic!("{what} does not start\n{}", said.collect::<String>());
            }
            thread::yield_now();
        }
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
        // a shell that is not the first one does not read the user's settings
        let server = format!(
            "HostKey {at}/key\nAuthorizedKeysFile {at}/key.pub\nPermitRootLogin prohibit-password\nStrictModes no\n\
             UsePAM no\nMaxStartups 200\nPidFile none\nAcceptEnv *\nSetEnv SHLVL=1\n"
        );
        fs::write(dir.join("sshd_config"), server).unwrap();
        let client = format!(
            "Host *\n  IdentityFile {at}/key\n  UserKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n  LogLevel ERROR\n"
        );
        fs::write(dir.join("config"), client).unwrap();
        let ssh = on_path("ssh", "apt-get install openssh-client").unwrap();
        let wrapper = self.dir.path().join("bin/ssh");
        fs::write(&wrapper, format!("#!/bin/sh\nexec {} -F {at}/config \"$@\"\n", ssh.display())).unwrap();
        fs::set_permissions(&wrapper, Permissions::from_mode(0o755)).unwrap();
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
