// The published clients of other verifiers against a server whose façades are on, which verifies on the simulated internet. Its verdicts
// are compared with the truth of that internet. Test keys, whose addresses name the verdict that they get, have verdicts that the
// simulator cannot give on demand. The clients' hosts are replaced by the server's address, so that no request leaves the machine.
import assert from "node:assert/strict"
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import http from "node:http"
import https from "node:https"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { after, before, test } from "node:test"

const require = createRequire(import.meta.url)
const program = new URL("../../bin/probity", import.meta.url).pathname
const folder = mkdtempSync(join(tmpdir(), "probity-facades-"))
const data = join(folder, "data")
const vendors = ["zerobounce", "neverbounce", "kickbox", "reacher"]
const credits = 1000
const speedup = "36000" // of the simulated internet and of the budgets that belong to it
const testKeys = {}, keys = {} // by vendor: each has an account of its own
let internet, server, base
let report = "" // of the simulator's referee, when it has ended

const run = (...args) => execFileSync(program, args, { encoding: "utf8", maxBuffer: 1 << 24, stdio: ["ignore", "pipe", "ignore"] }).trim()

// lineWith reads the log of a process up to a line, and drops what follows it.
async function lineWith(process, pattern) {
	for await (const line of createInterface({ input: process.stderr })) {
		const found = pattern.exec(line)
		if (found) {
			process.stderr.resume()
			return found
		}
	}
	assert.fail(`the process ended before it wrote ${pattern}`)
}

// end ends a process and waits for it.
async function end(process) {
	if (!process || process.exitCode !== null) return
	process.kill("SIGTERM")
	await once(process, "exit")
}

before(async () => {
	internet = spawn(program, ["sim", "serve", "--speedup", speedup, "--dns", "127.0.0.1:0", "--smtp-port", "-1"],
		{ stdio: ["ignore", "ignore", "pipe"] })
	const [, dns, port] = await lineWith(internet, /DNS at ([\d.:]+), SMTP at port (\d+)/)
	internet.stderr.on("data", text => report += text)
	for (const vendor of vendors) {
		const user = `${vendor}@shop.example`
		run("user", "add", user, "--credits", credits, "--limit", "single=1000/min", "--data", data)
		testKeys[vendor] = run("key", "create", "--user", user, "--name", "test", "--test", "--data", data)
		keys[vendor] = run("key", "create", "--user", user, "--name", "live", "--data", data)
	}
	const budgets = join(folder, "providers.toml")
	writeFileSync(budgets, run("sim", "providers", "--speedup", speedup))
	server = spawn(program, ["serve", "--data", data, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-format", "json",
		"--facades", vendors, "--dns", dns, "--smtp-port", port, "--allow-private-targets", "--providers", budgets,
		"--egress", "127.0.0.1=mx.prober.example", "--mail-from", "probe@prober.example"], { stdio: ["ignore", "ignore", "pipe"] })
	const [, address] = await lineWith(server, /"msg":"serving".*"public":"([^"]+)"/)
	base = `http://${address}/compat`
	redirect()
	readTruth()
})

after(async () => {
	await end(server)
	await end(internet)
	rmSync(folder, { recursive: true, force: true })
})

// redirect replaces the hosts that clients insist on, and refuses every other one.
function redirect() {
	const hosts = { "api.neverbounce.com": "/neverbounce", "api.kickbox.com": "/kickbox" }
	const { fetch } = globalThis
	const place = url => {
		if (url.hostname === "127.0.0.1") return url
		assert.ok(hosts[url.hostname], `a request to ${url.hostname}`)
		return new URL(base + hosts[url.hostname] + url.pathname + url.search)
	}
	globalThis.fetch = (url, options) => fetch(place(new URL(url)), options)
	https.request = (options, answered) => {
		const at = place(new URL(`https://${options.hostname ?? options.host}${options.path}`))
		return http.request({ method: options.method, headers: { ...options.headers, host: at.host }, host: at.hostname, port: at.port,
			path: at.pathname + at.search }, answered)
	}
}

// The words of each client for verdicts, by their reason.
const expected = {
	valid: ["valid", "valid", "deliverable accepted_email", "safe"],
	mailbox_not_found: ["invalid mailbox_not_found", "invalid", "undeliverable rejected_email", "invalid"],
	catch_all: ["catch-all", "catchall", "risky low_deliverability", "risky"],
	disposable: ["do_not_mail disposable", "disposable", "risky low_quality", "risky"],
	mailbox_full: ["unknown mailbox_quota_exceeded", "unknown", "risky low_deliverability", "risky"],
	mailbox_disabled: ["invalid", "invalid", "undeliverable rejected_email", "invalid"],
	accept_all_provider: ["catch-all", "catchall", "risky low_deliverability", "risky"],
	domain_not_found: ["invalid no_dns_entries", "invalid", "undeliverable invalid_domain", "invalid"],
	role_account: ["do_not_mail role_based", "unknown", "risky low_quality", "risky"],
	greylisted: ["unknown greylisted", "unknown", "unknown unavailable_smtp", "unknown"],
	blocked: ["unknown antispam_system", "unknown", "unknown unexpected_error", "unknown"],
}

// The statuses of the reasons that the simulator has mailboxes for.
const statuses = { valid: "VALID", mailbox_not_found: "INVALID", mailbox_disabled: "INVALID", domain_not_found: "INVALID", catch_all: "RISKY",
	accept_all_provider: "RISKY", disposable: "RISKY", mailbox_full: "RISKY", role_account: "RISKY" }
const addressesEach = 3 // of each vendor and reason
const addresses = {} // by reason, in the order of the list: those about which the truth allows one verdict

// readTruth reads what is true of addresses of the simulated internet.
function readTruth() {
	const file = join(folder, "list.csv")
	const emails = new Set(run("sim", "list", "--rows", "10000").match(/(?<=,)[a-z0-9.]+@[a-z0-9.-]+(?=,)/g))
	writeFileSync(file, ["email", ...emails, ""].join("\n"))
	const truth = run("sim", "truth", file).split("\n").map(line => line.split(","))
	for (const [reason, status] of Object.entries(statuses)) {
		addresses[reason] = truth.filter(row => row[1] === status && row[2] === reason.replace("valid", "")).map(row => row[0])
	}
}

// each requires the words of a client, in column, for simulated verdicts: those of example.com, by their local part.
const each = (column, check) => async () => {
	for (const [local, words] of Object.entries(expected))
		assert.equal((await check(testKeys[vendors[column]], `${local}@example.com`)).trim(), words[column], local)
}

// eachReal requires them for addresses of its own of the simulated internet.
const eachReal = (column, check) => async () => {
	for (const reason of Object.keys(statuses)) {
		const own = addresses[reason].slice(column * addressesEach).slice(0, addressesEach)
		assert.equal(own.length, addressesEach, reason)
		for (const email of own)
			assert.equal((await check(keys[vendors[column]], email, reason)).trim(), expected[reason][column], `${reason} ${email}`)
	}
}
const charged = Object.keys(statuses).length * addressesEach // credits, of each vendor

function zeroBounce(secret) {
	globalThis.window ??= {} // the published bundle is made for browsers
	const SDK = require("@zerobounce/zero-bounce-sdk")
	const client = new SDK()
	client.init(secret, `${base}/zerobounce/v2`)
	return client
}

async function checkZeroBounce(key, email, reason) {
	const answer = await zeroBounce(key).validateEmail(email, { timeout: 30 })
	assert.equal(answer.address, email)
	if (reason) assert.equal(answer.mx_found, String(reason !== "domain_not_found"), email)
	return `${answer.status} ${answer.sub_status}`
}

test("ZeroBounce: simulated verdicts", each(0, checkZeroBounce))
test("ZeroBounce: verdicts", eachReal(0, checkZeroBounce))
test("ZeroBounce: credits, and a bad key", async () => {
	assert.equal((await zeroBounce(keys.zerobounce).getCredits()).Credits, String(credits - charged))
	await assert.rejects(zeroBounce("bad").validateEmail("valid@example.com"), /api_key is invalid/)
})

const neverBounce = apiKey => new (require("neverbounce").default ?? require("neverbounce"))({ apiKey })

async function checkNeverBounce(key, email, reason) {
	const answer = await neverBounce(key).single.check(email)
	if (reason) {
		assert.equal(answer.hasFlag("has_dns_mx"), reason !== "domain_not_found", email)
		assert.equal(answer.hasFlag("disposable_email"), reason === "disposable", email)
		if (reason === "role_account") assert.ok(answer.hasFlag("role_account"), email)
		if (reason === "catch_all") assert.ok(answer.hasFlag("accepts_all"), email)
	}
	return answer.getResult()
}

test("NeverBounce: simulated verdicts", each(1, checkNeverBounce))
test("NeverBounce: verdicts", eachReal(1, checkNeverBounce))
test("NeverBounce: credits, and a bad key", async () => {
	assert.equal((await neverBounce(keys.neverbounce).account.info()).credits_info.paid_credits_remaining, credits - charged)
	await assert.rejects(neverBounce("bad").single.check("valid@example.com"), error => error.message.includes("auth_failure"))
})

const kickbox = (secret, email) => new Promise((resolve, reject) => require("kickbox").client(secret).kickbox()
	.verify(email, {}, (error, answer) => error ? reject(error) : resolve(answer.body)))

async function checkKickbox(key, email) {
	const answer = await kickbox(key, email)
	assert.deepEqual([answer.email, `${answer.user}@${answer.domain}`], [email, email])
	return `${answer.result} ${answer.reason}`
}

test("Kickbox: simulated verdicts", each(2, checkKickbox))
test("Kickbox: verdicts", eachReal(2, checkKickbox))
test("Kickbox: a bad key", () => assert.rejects(kickbox("bad", "valid@example.com"), /API key/))

const reacher = (apiToken, email) => require("@reacherhq/api").checkSingle({ to_email: email },
	{ apiToken, backendUrl: `${base}/reacher/v0/check_email` })

async function checkReacher(key, email, reason) {
	const answer = await reacher(key, email)
	assert.deepEqual([answer.input, `${answer.syntax.username}@${answer.syntax.domain}`], [email, email])
	if (reason) {
		assert.equal(answer.mx.accepts_mail, reason !== "domain_not_found", email)
		assert.equal(answer.smtp.has_full_inbox, reason === "mailbox_full", email)
		assert.equal(answer.smtp.is_disabled, reason === "mailbox_disabled", email)
		if (reason === "role_account") assert.ok(answer.misc.is_role_account, email)
	}
	return answer.is_reachable
}

test("Reacher: simulated verdicts", each(3, checkReacher))
test("Reacher: verdicts", eachReal(3, checkReacher))
test("Reacher: a bad key", () => assert.rejects(reacher("bad", "valid@example.com"), error => error.response.status === 401))

test("The simulated internet was probed within its limits", async () => {
	await end(server)
	await end(internet)
	const { recipients, excesses } = JSON.parse(report)
	assert.ok(recipients >= charged, `${recipients} recipients`)
	assert.equal(excesses, 0)
})
