// Package lists knows which domains give disposable mailboxes, which give free ones, which forward to a mailbox elsewhere (alias
// services), and which local parts name a role and no person. It also says which major provider's domain a typo of the keyboard was
// meant to be.
//
// The lists are generated from pinned packages (tools/lists) and embedded compressed. An operator's file adds to them and removes from
// them (Override). It refuses to guess: a name is on a list, or nothing is said of it.
//
// Invariants:
//
//  1. What a Set says never changes: it is shared without locks, and a reload makes another.
//  2. No domain of engine.Great is disposable or an alias service in any Set, and all of them are free; gmail.com first of all.
//  3. A sub-domain of a disposable domain is disposable, one of an alias service is that service's. Free domains match exactly. No
//     public suffix is listed. No free or alias domain is disposable.
//  4. CheckReload refuses a Set that lost a fifth or more of any list.
//  5. Looking up allocates nothing, but for a domain that was not asked for lately: a Set remembers what it found of 1,024 domains,
//     each until another takes its place. It takes about 1 MB: the text as it was read, four octets a slot, and those domains.
//
// # The format
//
// Text, one entry a line, packed with zstd; at most 64 MiB unpacked:
//
//	probity-lists 2
//	inputs sha256:<what the generator read>
//	from <package>@<version>
//	[disposable] <count>
//	<domain>
//	[free] <count>
//	<domain>
//	[alias] <count>
//	<domain>
//	[role] <count>
//	<name without separators and final digits>
//	[qualifier] <count>
//	<word>
//
// # Roles
//
// What follows a "+" is dropped: mail to info+x goes where info goes. The local part is a role when it is listed once its dots,
// hyphens, underscores and final digits are dropped (no-reply, sales2), or when each of its parts is a role of three letters or
// more, a qualifier (a country, a region, "team") or a number, one of them at least a role: sales.uk, eu-support, info-office,
// but not sales.smith.
package lists
