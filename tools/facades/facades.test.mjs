// The published clients of other verifiers against a server whose façades are on. Its key is a test key, whose addresses name the
// verdict that they get. The clients' hosts are replaced by the server's address, so that no request leaves the machine.
import assert from "node:assert/strict"
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import http from "node:http"
import https from "node:https"
import { mkdtempSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { after, before, test } from "node:test"

const require = createRequire(import.meta.url)
const program = new URL("../../bin/probity", import.meta.url).pathname
const folder = mkdtempSync(join(tmpdir(), "probity-facades-"))
const data = join(folder, "data")
const keys = {} // of accounts, by vendor: each has its own limit a minute
let server, base

before(async () => {
	const run = (...args) => execFileSync(program, [...args, "--data", data], { encoding: "utf8" }).trim()
	for (const vendor of ["zerobounce", "neverbounce", "kickbox", "reacher"]) {
		const user = `${vendor}@shop.example`
		run("user", "add", user)
		keys[vendor] = run("key", "create", "--user", user, "--name", "test", "--test")
	}
	server = spawn(program, ["serve", "--data", data, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--dns", "127.0.0.1:1",
		"--log-format", "json", "--facades", "zerobounce,neverbounce,kickbox,reacher"], { stdio: ["ignore", "ignore", "pipe"] })
	for await (const line of createInterface({ input: server.stderr })) {
		const entry = JSON.parse(line)
		if (entry.msg === "serving") {
			base = `http://${entry.public}/compat`
			break
		}
	}
	assert.ok(base, "the server did not start")
	server.stderr.resume()
	redirect()
})

after(async () => {
	if (server?.exitCode === null) {
		server.kill("SIGTERM")
		await once(server, "exit")
	}
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

// The words of each client for addresses of example.com, by their local part.
const expected = {
	valid: ["valid", "valid", "deliverable accepted_email", "safe"],
	mailbox_not_found: ["invalid mailbox_not_found", "invalid", "undeliverable rejected_email", "invalid"],
	catch_all: ["catch-all", "catchall", "risky low_deliverability", "risky"],
	disposable: ["do_not_mail disposable", "disposable", "risky low_quality", "risky"],
	mailbox_full: ["unknown mailbox_quota_exceeded", "unknown", "risky low_deliverability", "risky"],
	role_account: ["do_not_mail role_based", "unknown", "risky low_quality", "risky"],
	greylisted: ["unknown greylisted", "unknown", "unknown unavailable_smtp", "unknown"],
	blocked: ["unknown antispam_system", "unknown", "unknown unexpected_error", "unknown"],
}

const each = (column, check) => async () => {
	for (const [local, words] of Object.entries(expected)) assert.equal((await check(`${local}@example.com`)).trim(), words[column], local)
}

function zeroBounce(secret) {
	globalThis.window ??= {} // the published bundle is made for browsers
	const SDK = require("@zerobounce/zero-bounce-sdk")
	const client = new SDK()
	client.init(secret, `${base}/zerobounce/v2`)
	return client
}

test("ZeroBounce: verdicts", each(0, async email => {
	const answer = await zeroBounce(keys.zerobounce).validateEmail(email, { timeout: 5 })
	assert.equal(answer.address, email)
	return `${answer.status} ${answer.sub_status}`
}))
test("ZeroBounce: credits, and a bad key", async () => {
	assert.match((await zeroBounce(keys.zerobounce).getCredits()).Credits, /^\d+$/)
	await assert.rejects(zeroBounce("bad").validateEmail("valid@example.com"), /api_key is invalid/)
})

const neverBounce = apiKey => new (require("neverbounce").default ?? require("neverbounce"))({ apiKey })

test("NeverBounce: verdicts", each(1, async email => (await neverBounce(keys.neverbounce).single.check(email)).getResult()))
test("NeverBounce: flags, credits, and a bad key", async () => {
	assert.ok((await neverBounce(keys.neverbounce).single.check("catch_all@example.com")).hasFlag("accepts_all"))
	assert.equal(typeof (await neverBounce(keys.neverbounce).account.info()).credits_info.paid_credits_remaining, "number")
	await assert.rejects(neverBounce("bad").single.check("valid@example.com"), error => error.message.includes("auth_failure"))
})

const kickbox = (secret, email) => new Promise((resolve, reject) => require("kickbox").client(secret).kickbox()
	.verify(email, {}, (error, answer) => error ? reject(error) : resolve(answer.body)))

test("Kickbox: verdicts", each(2, async email => {
	const answer = await kickbox(keys.kickbox, email)
	assert.equal(answer.email, email)
	return `${answer.result} ${answer.reason}`
}))
test("Kickbox: a bad key", () => assert.rejects(kickbox("bad", "valid@example.com"), /API key/))

const reacher = (apiToken, email) => require("@reacherhq/api").checkSingle({ to_email: email },
	{ apiToken, backendUrl: `${base}/reacher/v0/check_email` })

test("Reacher: verdicts", each(3, async email => {
	const answer = await reacher(keys.reacher, email)
	assert.deepEqual([answer.input, answer.syntax.domain], [email, "example.com"])
	return answer.is_reachable
}))
test("Reacher: a bad key", () => assert.rejects(reacher("bad", "valid@example.com"), error => error.response.status === 401))
