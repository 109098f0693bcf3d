// Package receivers sends callbacks to what people receive them with: the HTTP servers of Python, PHP and Go, Flask
// under gunicorn, and Express, each a process as its documentation starts it, with the limits that it has by itself.
//
//   - Each has the whole body of a small event: WSGI servers and PHP know no body without a Content-Length.
//   - One that takes no large body has the link to the results instead, and the link has every row.
package receivers
