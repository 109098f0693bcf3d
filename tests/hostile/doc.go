// Package hostile verifies mailboxes of receivers whose replies mislead, in virtual time with the shipped budgets: one
// node, and the hostile personas of the simulated internet.
//
//   - No verdict is false, except at receivers that nothing in their replies gives away; their personas say why.
//   - A list has existing and missing mailboxes of all of them in random order; single calls verify the same mailboxes
//     one after another.
package hostile
