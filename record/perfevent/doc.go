// Package perfevent gets records from the kernel to this process: it opens the counters of events (open.go), with the
// features that the kernel knows, sets their filters (filter.go), directs them to ring buffers (map.go, ring.go), and
// opens them again when a CPU comes online (hotplug.go). It is the only package that calls perf_event_open.
package perfevent
