// Package record makes the records that the API shows and sends: of jobs, receipts of erasures, and what admins see
// of accounts, keys, suppressions and the audit log.
//
// Invariants:
//  1. A record is made of what is stored and of the time that is passed: making it reads and changes nothing.
//  2. The record of a job is the same in an answer, in an event stream and in a callback.
//  3. A receipt has the erased address only as a hash.
//  4. A time is in whole seconds and UTC; what is not known is null.
package record
