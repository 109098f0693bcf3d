// A whole service for the test of the dashboard, as processes: a pretend mail internet, a coordinator and two probers.
import { execFile, spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const patience = 90_000; // for a process to be up, on a machine that has other things to do

// The pretend internet's clock runs so much faster, unless a test says otherwise; a refusal of us that names a block list holds
// for hours all the same, so that it can be looked at.
const usual = 4000;
const lasting = `
[[rule]]
id = "test-walled"
text = ["blocked using ~"]
meaning = "blocked"
blame = "us"
action = "quarantine"
for = "744h"
source = "the test of the dashboard"
date = "2026-11-20"
`;

// Whatever ends the test, no process of it stays behind.
const alive = new Set();
process.on("exit", () => {
  for (const child of alive) child.kill("SIGKILL");
});

/** Process is a program that says on its standard error, or output, how it fares. */
class Process {
  said = "";
  constructor(program, args) {
    this.child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
    alive.add(this.child);
    this.ended = new Promise((done) => this.child.once("exit", done));
    this.child.once("exit", () => alive.delete(this.child));
    this.child.stdout.on("data", (b) => (this.said += b));
    this.child.stderr.on("data", (b) => (this.said += b));
    this.name = args[0];
  }

  /** says waits until it has said something that matches. */
  says(what) {
    return new Promise((found, failed) => {
      const look = () => {
        const m = what.exec(this.said);
        if (m) finish(found, m);
      };
      const finish = (how, value) => {
        clearTimeout(timer);
        this.child.stderr.off("data", look);
        this.child.stdout.off("data", look);
        this.child.off("exit", gone);
        how(value);
      };
      const gone = (code) => finish(failed, new Error(`${this.name} ended with ${code}: ${this.said}`));
      const timer = setTimeout(() => finish(failed, new Error(`${this.name} is not up: ${this.said}`)), patience);
      this.child.stderr.on("data", look);
      this.child.stdout.on("data", look);
      if (this.child.exitCode !== null) gone(this.child.exitCode);
      else {
        this.child.on("exit", gone);
        look();
      }
    });
  }

  /** kill is SIGKILL: nothing is said, nothing written. */
  async kill() {
    this.child.kill("SIGKILL");
    await this.ended;
  }

  async stop() {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    this.child.kill("SIGTERM");
    await this.ended;
  }
}

/** freePort is one that is free for TCP and UDP now. */
async function freePort() {
  for (;;) {
    const tcp = createServer();
    const port = await new Promise((up) => tcp.listen(0, "127.0.0.1", () => up(tcp.address().port)));
    const udp = createSocket("udp4");
    const free = await new Promise((done) => {
      udp.once("error", () => done(false));
      udp.bind(port, "127.0.0.1", () => done(true));
    });
    await new Promise((done) => tcp.close(done));
    await new Promise((done) => (free ? udp.close(done) : done()));
    if (free) return port;
  }
}

/** startFleet starts everything in a folder, with pages of some origins let in and more flags for the coordinator. A port
 * that another program took meanwhile is another one the next time. */
export async function startFleet(program, dir, origins, flags = [], speedup = usual) {
  for (let tries = 1; ; tries++) {
    const fleet = new Fleet(program, join(dir, `try${tries}`), speedup);
    try {
      await fleet.start(origins, flags);
      return fleet;
    } catch (e) {
      await fleet.stop();
      if (tries === 5 || !/address already in use/.test(e.message)) throw e;
    }
  }
}

class Fleet {
  processes = [];
  probers = new Map();

  constructor(program, dir, speedup) {
    this.program = program;
    this.dir = dir;
    this.speedup = speedup;
  }

  at(name) {
    return join(this.dir, name);
  }

  begin(args) {
    const p = new Process(this.program, args);
    this.processes.push(p);
    return p;
  }

  async start(origins, flags) {
    await mkdir(this.dir, { recursive: true });
    for (const what of [["init"], ["coordinator", "hub"], ["node", "p1", "p2"]]) await run(this.program, ["certs", ...what, "--dir", this.at("certs")]);
    const { stdout: table } = await run(this.program, ["sim", "providers", "--speedup", String(this.speedup)]);
    await writeFile(this.at("providers.toml"), table + lasting);
    const sim = this.begin(["sim", "serve", "--dns", "127.0.0.1:0", "--smtp-port=-1", "--speedup", String(this.speedup)]);
    const [, dns, smtp] = await sim.says(/DNS at (\S+), SMTP at port (\d+)/);
    this.mail = ["--dns", dns, "--smtp-port", smtp, "--allow-private-targets", "--providers", this.at("providers.toml")];
    this.gossip = `127.0.0.1:${await freePort()}`;
    const hub = this.begin(["coordinator", "--name", "hub", "--data", this.at("hub"), "--certs", this.at("certs"), "--cluster-listen", this.gossip,
      "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--disk-floor", "1", ...this.mail, ...origins.flatMap((o) => ["--cors-origin", o]), ...flags]);
    const [, email, secret] = await hub.says(/Its admin is (\S+), .*; the password is in (\S+): /);
    const [, at] = await hub.says(/msg=serving public=(\S+)/);
    this.base = `http://${at}`;
    this.email = email;
    this.password = (await readFile(secret, "utf8")).trim();
    await Promise.all(["p1", "p2"].map((name) => this.prober(name)));
  }

  /** prober starts a prober with an egress identity of its own. */
  async prober(name) {
    const p = this.begin(["prober", "--name", name, "--data", this.at(name), "--certs", this.at("certs"), "--join", this.gossip,
      "--cluster-listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", ...this.mail,
      "--mail-from", "probe@prober.example", "--egress", `127.0.0.${name === "p1" ? 11 : 12}=${name}.prober.example`]);
    this.probers.set(name, p);
    await p.says(/ready for a coordinator/);
  }

  /** list is a sample list of the pretend internet. */
  async list(rows) {
    const { stdout } = await run(this.program, ["sim", "list", "--rows", String(rows)], { maxBuffer: 64 << 20 });
    return stdout;
  }

  /** refused are addresses of a list whose receivers refuse us, one a domain. */
  async refused(list) {
    await writeFile(this.at("list.csv"), list);
    const { stdout } = await run(this.program, ["sim", "truth", this.at("list.csv")], { maxBuffer: 64 << 20 });
    const byDomain = new Map();
    for (const line of stdout.split("\n")) {
      const [, email, domain] = /,([^,"\s]+@([^,"\s]+)),.*,UNKNOWN,blocked$/.exec(line) ?? [];
      if (email) byDomain.set(domain.toLowerCase(), email);
    }
    return [...byDomain.values()];
  }

  async stop() {
    for (const p of this.processes.reverse()) await p.stop();
  }
}
