// Package nodeflags has the flags of all commands that query the DNS, probe mail servers or look addresses up in the
// lists, and makes what they say: provider table, resolver, egress sources, a prober's configuration, an audit.
//
// Invariants:
//  1. What a flag says is checked before any server is contacted and any file is made, and an error names the flag and
//     what to write.
//  2. Nothing is started and nothing stays open: sockets are those of this machine, opened by what uses them.
//  3. No output and no error has the password of a proxy.
//  4. The provider table is the shipped one with the operator's overrides, the retry schedule and the terms of
//     receivers laid over it, in this order.
//  5. A source is used only if this machine can bind its address, and never twice.
package nodeflags
