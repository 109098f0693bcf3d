// Package lists knows which domains give disposable mailboxes, which give free ones, which forward to a mailbox
// elsewhere (alias services), and which local parts name a role and not a person. It also suggests the major provider's
// domain for a typo.
//
// The lists are generated from pinned packages (tools/lists) and embedded compressed. An operator's file adds to them
// and removes from them (Override). It does not guess: a name that is not on a list gets no flag.
//
// Invariants:
//
//  1. The content of a Set never changes: it is shared without locks, and a reload makes another.
//  2. No domain of typo.MajorDomains is disposable or an alias service in any Set, and all of them are free.
//  3. A sub-domain of a disposable domain is disposable, one of an alias service is that service's; free domains match
//     exactly.
//  4. No public suffix is listed, and no free or alias domain is disposable.
//  5. CheckReload refuses a Set that lost a fifth or more of any list.
//  6. A lookup allocates nothing, and a Set takes about 1 MB: the text as it was read, and four octets a slot.
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
// What follows a "+" is dropped: mail to info+x goes where info goes. The local part is a role if it is listed without
// its dots, hyphens, underscores and final digits (no-reply, sales2), or if each of its parts is a role of three
// letters or more, a qualifier (a country, a region, "team") or a number, and at least one is a role: sales.uk,
// eu-support, info-office, but not sales.smith.
package lists
