package inspect

import "gperf/format"

// Facts returns facts about the machine from a recording's header, one line per fact, such as "hostname: server".
func Facts(f *format.File) (lines []string) {
	for _, s := range [...]struct {
		name    string
		feature format.Feature
	}{{"hostname", format.FeatureHostname}, {"os release", format.FeatureOSRelease}, {"arch", format.FeatureArch},
		{"cpu", format.FeatureCPUDesc}} {
		if text := f.String(s.feature); text != "" {
			lines = append(lines, s.name+": "+text)
		}
	}
	return lines
}
