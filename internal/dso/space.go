package dso

// SpareText describes SpareSpace.
const SpareText = "a file takes at most half of the free space, and 4 GB or a tenth of the disk stay free"

// spare returns how many bytes one more file may take of a file system with so many free bytes: many recordings
// together must not fill it.
func spare(free, size int64) int64 { return max(0, min(free/2, free-min(size/10, 4<<30))) }
