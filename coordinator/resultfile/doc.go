// Package resultfile makes the result files of jobs, gives them to callers and callbacks, and makes damaged or missing
// ones again. Package results joins the answers with the rows; here is which file is stored, checked and given.
//
// Invariants:
//  1. A result file that is made again has the counts and the charge of its job, or it is not used.
//  2. A stored file is given only after its checksum was verified; it is verified again after ten seconds.
//  3. Nothing is written to a caller before the checksum of the stored file, or for another form all answers, were
//     checked. After a later error it has a part of the results.
//  4. Files that were replaced while they were opened, as by an erasure, are opened anew; files are replaced with the
//     job's lock held.
//  5. Damage to the answers of a finished job is shown in its record; then only the stored file is still given, if its
//     checksum fits.
package resultfile
