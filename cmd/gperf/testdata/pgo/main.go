// Pgo spends its time in a function that go build inlines only with a profile.
package main

import "gperf/cmd/gperf/testdata/pgo/hot"

func main() { println(hot.Run(50_000_000)) }
