// Package mcptools offers the API of a running server as tools of the Model Context Protocol, so that an assistant can
// verify addresses and ask about jobs.
//
// Invariants:
//  1. A tool's answer is the body of the API's answer, unchanged; explain joins two of them. Nothing is decided here.
//  2. Input that does not fit a tool's schema, and a refusal of the server, are errors of that call, in words; the
//     session goes on.
//  3. The tools start, change and delete no job.
//  4. The key goes to the server of the client only, and no answer contains it.
package mcptools
