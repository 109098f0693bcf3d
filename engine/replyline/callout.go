package replyline

import (
	"strconv"
	"strings"
)

// calloutFailed begins a refusal in which Exim quotes what the server behind it said of the recipient (Exim
// specification, "Callout verification"). A failed callout to the sender has other words, and names the sender.
const calloutFailed = "callout verification failed"

// Callout returns the reply that a failed recipient callout quotes: its code, from 400 to 599, and the text of its
// lines. The code is 0 if the lines quote none.
func Callout(lines []string) (code int, quoted []string) {
	if len(lines) == 0 {
		return 0, nil
	}
	first := strings.TrimSpace(lines[0])
	if len(first) < len(calloutFailed) || !strings.EqualFold(first[:len(calloutFailed)], calloutFailed) {
		return 0, nil
	}
	for _, line := range append([]string{strings.TrimLeft(first[len(calloutFailed):], ": ")}, lines[1:]...) {
		n, text := cutCode(line)
		if code == 0 {
			code = n
		}
		quoted = append(quoted, text)
	}
	return code, quoted
}

// cutCode divides a quoted line into the code of a refusal, 0 if it begins with none, and the text.
func cutCode(line string) (code int, text string) {
	line = strings.TrimSpace(line)
	if len(line) < 3 || len(line) > 3 && line[3] != ' ' && line[3] != '-' {
		return 0, line
	}
	n, err := strconv.Atoi(line[:3])
	if err != nil || n < 400 || n > 599 {
		return 0, line
	}
	return n, line[min(4, len(line)):]
}
