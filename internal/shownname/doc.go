// Package shownname is the rule for names and notes that people give and that other people read: of jobs and API keys,
// at grants and suppressions, as accounts, of uploaded files. Such a text must look like what it is, on a page, in a
// terminal and in a log.
package shownname
