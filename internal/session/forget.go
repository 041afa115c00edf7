package session

// maxFrames is the number of frames from which a walk with Ticks forgets them: of a recording
// without end, processes that exited long ago would fill the memory.
const maxFrames = 1 << 18

// forget drops the cached frames, callchains and mappings of all processes if there are too
// many. Frames that callers keep stay valid.
func (w *walk) forget() {
	if w.frames.chains.made < maxFrames && len(w.machine.known) < maxFrames {
		return
	}
	w.machine.forget()
	w.frames = newFrames(w.machine, &w.opts)
	w.session.frames, w.resolver.frames = w.frames, w.frames
}

// forget empties the caches of all mappings, and drops the mappings that no thread uses.
func (m *machine) forget() {
	clear(m.known)
	m.kernel.maps.forget()
	for _, th := range m.threads {
		if th.space.maps.forget() {
			for _, mp := range th.space.maps.list() {
				m.known[mp.key()] = mp
			}
		}
	}
}

// dropChains frees the tables by which callchains are found.
func (m *machine) dropChains() {
	m.kernel.maps.dropChains()
	for _, th := range m.threads {
		th.space.maps.dropChains()
	}
}

func (ms *maps) dropChains() { ms.chains, ms.called, ms.foreign = chains{}, chains{}, chains{} }

// forget empties the caches of the mappings. It reports whether there was anything to empty, because threads share
// mappings.
func (ms *maps) forget() bool {
	ms.dropChains()
	list := ms.list()
	for _, mp := range list {
		mp.frames, mp.counted = frameTables{}, 0
	}
	return len(list) > 0
}
