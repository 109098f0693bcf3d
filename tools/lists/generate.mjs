// Makes engine/lists/lists.bin.zst from the pinned packages and edits.json. The same inputs give the same bytes.
//
// Disposable: all that the core package names, and what both others name. Free: what either free list names, less
// everything that any disposable list names (one free list holds nearly every disposable domain), plus edits.
// Public suffixes are never listed, because a listed disposable domain stands for its sub-domains too.
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

// greatProviders reads the names where they are kept, so that each of them is free.
function greatProviders() {
  const source = readFileSync(here('../../engine/suggest.go'), 'utf8')
  const lists = [...source.matchAll(/^var great\w* = \[\.\.\.\]string\{([^}]*)\}/gm)].map((m) => m[1])
  if (lists.length !== 2) throw new Error('engine/suggest.go no longer has its two lists of great providers')
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

function disposableDomains(votes, great) {
  const [core, ...others] = votes
  const elected = [...others[0]].filter((d) => others[1].has(d))
  const all = new Set([...core, ...elected])
  for (const d of [...edits.notDisposable.domains, ...great]) all.delete(d)
  return new Set([...all].filter((d) => !underListed(d, all)))
}

function freeDomains(votes, disposable, great) {
  const free = domains([...inPackage('email-providers/all.json'), ...inPackage('free-email-domains/domains.json')])
  for (const d of free) {
    if (votes.some((v) => v.has(d)) || underListed(d, disposable)) free.delete(d)
  }
  for (const d of [...edits.free.domains, ...great]) free.add(d)
  for (const d of edits.notFree.domains) free.delete(d)
  return free
}

const squeeze = (name) => name.toLowerCase().replace(/[._-]/g, '').replace(/[0-9]+$/, '')

function roleNames() {
  const require = createRequire(import.meta.url)
  const roles = new Set([...require('role-based-email-addresses'), ...edits.roles.names].map(squeeze))
  for (const n of edits.notRoles.names) roles.delete(squeeze(n))
  return new Set([...roles].filter((n) => /^[a-z]{2,64}$/.test(n)))
}

function check(disposable, free) {
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

const great = greatProviders()
const votes = [
  inPackage('disposable-email-domains-js/dist/dict/disposable_email_blocklist.json'),
  [...createRequire(import.meta.url)('mailchecker').blacklist()],
  inPackage('disposable-domains/index.json'),
].map(domains)
const disposable = disposableDomains(votes, great)
const free = freeDomains(votes, disposable, great)
check(disposable, free)

const packages = Object.entries(readJSON('package.json').dependencies).map(([name, version]) => `from ${name}@${version}`)
const text = [
  'probity-lists 1',
  `inputs sha256:${stamp()}`,
  ...packages,
  ...section('disposable', disposable),
  ...section('free', free),
  ...section('role', roleNames()),
  ...section('qualifier', new Set(edits.qualifiers.names)),
  '',
].join('\n')

await init()
const packed = compress(Buffer.from(text), 19)
writeFileSync(output, packed)
console.log(`${disposable.size} disposable, ${free.size} free, ${roleNames().size} roles: ${text.length} octets, ${packed.length} packed`)
