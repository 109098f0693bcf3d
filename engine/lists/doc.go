// Package lists knows which domains give disposable mailboxes, which give free ones, and which local parts name a role
// and no person. It also says which great provider's domain a slip of the keyboard was meant to be.
//
// The lists are generated from pinned packages (tools/lists), embedded compressed, and can be replaced while running by a
// file of the same format, packed or plain. It refuses to guess: a name is on a list, or nothing is said of it.
//
// Invariants:
//
//  1. What a Set says never changes: it is shared without locks, and a reload makes another.
//  2. No domain of engine.Great is disposable in any Set, and all of them are free; gmail.com first of all.
//  3. A sub-domain of a disposable domain is disposable. Free domains match exactly. No public suffix is listed.
//  4. A reload that would lose a fifth or more of any list is refused, and the old Set stays.
//  5. Looking up allocates nothing, but for a domain that was not asked for lately: a Set remembers what it found of 1,024 domains,
//     each until another takes its place. It takes about 1 MB: the text as it was read, four octets a slot, and those domains.
//
// # The format
//
// Text, one entry a line, packed with zstd or plain; at most 64 MiB unpacked:
//
//	probity-lists 1
//	inputs sha256:<what the generator read>
//	from <package>@<version>
//	[disposable] <count>
//	<domain>
//	[free] <count>
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
