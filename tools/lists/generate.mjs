// Makes engine/lists/lists.bin.zst from the pinned packages and edits.json. The same inputs give the same bytes.
//
// Disposable: what the reviewed core package names, and what all three others name: two of these copy from each other, the third
// drops domains that are gone or known as providers. Free: what a free list names and no disposable list does (one free list holds
// nearly every disposable domain), and what both a free list and the provider list name, unless it was elected disposable.
// Alias: services that forward mail to a mailbox their customer keeps elsewhere; by hand. An alias service is never disposable.
// Edits come last, in groups, each with its reason.
// Public suffixes are never listed, because a listed disposable or alias domain stands for its sub-domains too.
// Role: RFC 2142 and common names, written without separators and final digits, as the reader compares them.

import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { domainToASCII } from 'node:url'
import { compress, init } from '@bokuweb/zstd-wasm'
import { parse } from 'tldts'

const here = (name) => new URL(name, import.meta.url)
const readJSON = (name) => JSON.parse(readFileSync(here(name), 'utf8'))
const inPackage = (name) => readJSON(`node_modules/${name}`)
const edits = readJSON('edits.json')

// The inputs in this order are what the stamp is taken of; a test of engine/lists takes it again.
const inputs = ['package.json', 'package-lock.json', 'generate.mjs', 'edits.json']
const output = here('../../engine/lists/lists.bin.zst')

// A run that ends with one of these on the wrong side writes nothing.
const mustBeFree = ['gmail.com', 'googlemail.com', 'yahoo.com', 'hotmail.com', 'outlook.com', 'live.com', 'msn.com', 'icloud.com', 'me.com', 'aol.com',
  'gmx.de', 'gmx.net', 'web.de', 'mail.ru', 'yandex.ru', 'qq.com', '163.com', 'protonmail.com', 'proton.me', 'free.fr', 'orange.fr', 't-online.de']
const mustBeDisposable = ['mailinator.com', 'guerrillamail.com', '10minutemail.com', 'yopmail.com', 'temp-mail.org']

// majorProviders reads the names where they are kept, so that each of them is free.
function majorProviders() {
  const source = readFileSync(here('../../engine/typo/suggest.go'), 'utf8')
  const lists = [...source.matchAll(/^var major\w* = \[\.\.\.\]string\{([^}]*)\}/gm)].map((m) => m[1])
  if (lists.length !== 3) throw new Error('engine/typo/suggest.go no longer has its three lists of major providers')
  return [...lists.join('\n').matchAll(/"([^"]+)"/g)].map((m) => m[1])
}

function domains(list) {
  const good = new Set()
  for (const raw of list) {
    const d = domainToASCII(String(raw).trim().toLowerCase())
    if (d.length <= 253 && /^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]$/.test(d) && !isPublicSuffix(d)) good.add(d)
  }
  return good
}

function isPublicSuffix(d) {
  return parse(d, { allowPrivateDomains: true }).publicSuffix === d
}

function underListed(d, listed) {
  for (let dot = d.indexOf('.'); dot > 0; dot = d.indexOf('.', dot + 1)) {
    if (listed.has(d.slice(dot + 1))) return true
  }
  return false
}

// edited is all that the groups of one name in edits.json hold.
function edited(name) {
  return edits[name].flatMap((group) => group.domains ?? group.names)
}

function disposableDomains(votes, major, alias) {
  const [core, first, ...others] = votes
  const elected = [...first].filter((d) => others.every((v) => v.has(d)))
  const all = new Set([...core, ...elected])
  for (const d of [...edited('notDisposable'), ...edited('free'), ...alias, ...major]) all.delete(d)
  return new Set([...all].filter((d) => !underListed(d, all)))
}

function freeDomains(votes, disposable, major) {
  const free = domains([...inPackage('email-providers/all.json'), ...inPackage('free-email-domains/domains.json')])
  const providers = domains(readFileSync(here('node_modules/freemail/data/free.txt'), 'utf8').split('\n'))
  for (const d of free) {
    const vouched = providers.has(d) && parse(d).domain === d
    if (votes.some((v) => v.has(d)) && !vouched || disposable.has(d) || underListed(d, disposable)) free.delete(d)
  }
  for (const d of [...edited('free'), ...major]) free.add(d)
  for (const d of edited('notFree')) free.delete(d)
  return free
}

const squeeze = (name) => name.toLowerCase().replace(/[._-]/g, '').replace(/[0-9]+$/, '')

function roleNames() {
  const require = createRequire(import.meta.url)
  const roles = new Set([...require('role-based-email-addresses'), ...edited('roles')].map(squeeze))
  for (const n of edited('notRoles')) roles.delete(squeeze(n))
  return new Set([...roles].filter((n) => /^[a-z]{2,64}$/.test(n)))
}

function check(disposable, free, alias) {
  for (const d of [...edited('free'), ...edited('alias'), ...edited('notFree'), ...edited('notDisposable')]) {
    if (!domains([d]).has(d)) throw new Error(`edits.json: ${d} is no domain that can be listed`)
  }
  for (const d of alias) {
    if (disposable.has(d) || underListed(d, disposable) || underListed(d, alias)) throw new Error(`${d} is an alias service, and disposable or listed twice`)
  }
  for (const d of mustBeFree) {
    if (!free.has(d) || disposable.has(d) || underListed(d, disposable)) throw new Error(`${d} must be free and not disposable`)
  }
  for (const d of mustBeDisposable) {
    if (!disposable.has(d) || free.has(d)) throw new Error(`${d} must be disposable and not free`)
  }
  for (const d of free) {
    if (disposable.has(d) || underListed(d, disposable)) throw new Error(`${d} is both free and disposable`)
  }
}

function stamp() {
  const hash = createHash('sha256')
  for (const name of inputs) {
    const bytes = readFileSync(here(name))
    hash.update(`${name} ${bytes.length}\n`).update(bytes)
  }
  return hash.digest('hex')
}

function section(name, set) {
  return [`[${name}] ${set.size}`, ...[...set].sort()]
}

const major = majorProviders()
const votes = [
  inPackage('disposable-email-domains-js/dist/dict/disposable_email_blocklist.json'),
  [...createRequire(import.meta.url)('mailchecker').blacklist()],
  inPackage('disposable-domains/index.json'),
  inPackage('@dahoom/disposable-email/domains.json'),
].map(domains)
const alias = new Set(edited('alias'))
const disposable = disposableDomains(votes, major, alias)
const free = freeDomains(votes, disposable, major)
check(disposable, free, alias)

const packages = Object.entries(readJSON('package.json').dependencies).map(([name, version]) => `from ${name}@${version}`)
const text = [
  'probity-lists 2',
  `inputs sha256:${stamp()}`,
  ...packages,
  ...section('disposable', disposable),
  ...section('free', free),
  ...section('alias', alias),
  ...section('role', roleNames()),
  ...section('qualifier', new Set(edited('qualifiers'))),
  '',
].join('\n')

await init()
const packed = compress(Buffer.from(text), 19)
writeFileSync(output, packed)
console.log(`${disposable.size} disposable, ${free.size} free, ${alias.size} alias, ${roleNames().size} roles: ${text.length} octets, ${packed.length} packed`)
