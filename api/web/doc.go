// Package web serves the dashboard, which is built from the sources in this folder and is part of the program.
//
// Invariants:
//  1. Script comes from our own files only: no page contains any, and each answer has a nonce of its own for the style
//     sheets that components make.
//  2. A file's name changes with its content, so that clients keep it for ever; the page that names the files is never
//     kept.
//  3. The program contains scripts and style sheets as gzip, those of the dashboard as Brotli too. They are sent as
//     they are, or unpacked for a client that reads neither.
//  4. A program that was built without Node has a page that says how to build the dashboard.
package web
