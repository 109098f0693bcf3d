// Package hosthealth remembers how the hosts of one ready queue have failed, and how fast they reply. It says what
// counts as a failure of the host: what its caller does about it (back-off, pauses, what waiting rows see) is not here.
// Hosts is a value without a lock: its owner's lock guards it.
//
// Terms: a failure is a connection that carried no recipient. Silence is a connection that took recipients and answered
// none. A tarpit is a host that replies ever more slowly.
//
// Invariants:
//  1. A host counts as down only until the time that its caller gives.
//  2. A failure that was not confirmed by a later connection is forgotten: failures of connections made at the same
//     time are one.
//  3. A host is silent after three such connections with no answer between them.
//  4. A host that was always slow is not a tarpit: only one that takes several times as long as in its fastest
//     transaction.
//  5. An address that failed comes last among those of its host, until its failure is over.
//  6. A host that was out of step is given one command at a time for a day; then it is unknown again.
//  7. At most 2,000 hosts are remembered, a thousand of them for their reply times alone; of others nothing is known.
package hosthealth
