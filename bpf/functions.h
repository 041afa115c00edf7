/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions that runtimes run, of the current task: after the native frames of a walk.
 */
#ifndef FUNCTIONS_H
#define FUNCTIONS_H

#include "java.h"
#include "perl.h"
#include "php.h"
#include "python.h"
#include "ruby.h"
#include "v8.h"

/*
 * functions stores the frames of the functions that the process's runtime runs. The verifier checks it separately, as it
 * does step: in each program, it would take minutes.
 */
__attribute__((noinline)) int functions(__u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct runtime *r;

	if (!w || !w->runtime)
		return 0;
	r = bpf_map_lookup_elem(&runtimes, &w->runtime);
	if (!r)
		return 0;
	w->now = bpf_ktime_get_ns();
	w->seen_before = 0;
	switch (r->kind) {
	case RUNTIME_PYTHON:
		python(w, slot);
		break;
	case RUNTIME_RUBY:
		ruby(w, slot);
		break;
	case RUNTIME_PERL:
		perl(w, slot);
		break;
	case RUNTIME_JAVA:
		java(w, slot);
		break;
	case RUNTIME_PHP:
		php(w, slot);
		break;
	case RUNTIME_V8:
		v8(w, slot);
		break;
	}
	return 0;
}

#endif
