// Package referee counts what each source does at each receiver of the simulated internet, compares it with the
// persona's limits, and reports every excess. It also says which limit a client has just exceeded, for the server's
// reply.
//
// # Invariants
//
//  1. A connection counts as open from its acceptance until the client has closed its side or the server has decided to
//     close, whichever is first: never longer than the client can know that it is open.
//  2. A window holds between 59 and 60 parts of its minute or hour, so that no rate is overstated.
//  3. All hosts of a provider count as one, whatever the personas of its tenants.
//  4. A narrow route is also counted over all sources, and so are the sources of a tenant: one source at a time may use
//     it.
//  5. Memory is bounded by maxMeters pairs of source and receiver, and as many routes.
//  6. Each lock is held for one step: that of the Referee for its maps, that of a meter for its figures, and none while
//     another is held.
package referee
