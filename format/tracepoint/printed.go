package tracepoint

import "strings"

// Printed finds "name=value", "name:value" or "name: value" in the text that AppendPrint
// made, and returns the value of a field, a word; "" if there is none. perf does not read
// past the blank of the last form and shows nothing for these fields, for
// example the reason of skb:kfree_skb.
func Printed(text, name string) string {
	for word := range strings.SplitSeq(text, " ") {
		text = text[min(len(word)+1, len(text)):]
		rest, ok := strings.CutPrefix(word, name)
		if !ok || rest == "" || rest[0] != '=' && rest[0] != ':' {
			continue
		}
		if rest == ":" {
			value, _, _ := strings.Cut(text, " ")
			return value
		}
		return rest[1:]
	}
	return ""
}
