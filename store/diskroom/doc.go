// Package diskroom lets a process go on when its disk is full or its file system has become read-only.
//
// A write of a database that fails cannot be taken back, so here it waits instead: a full disk is a slow disk. What is
// about to begin asks Full first and is refused.
//
// Invariants:
//  1. A write of State or Cache never fails for want of room: it waits until there is room again.
//  2. A write of Files fails at once for want of room, with a FullError.
//  3. A ballast file is deleted when the disk is first found to be full, and made again when there is room. In between
//     only State writes: the freed room is for starts and deletions.
//  4. A sync that failed for want of room is never repeated, because its bytes may be lost: it waits until the process
//     ends.
//  5. Reads and deletions never wait.
//  6. A log behind Quiet has no FullError but the one that its room tells.
package diskroom
