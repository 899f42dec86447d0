/* The seam between the interpreter that was preloaded with us and the slot that drives it. */
#pragma once

/*
 * Serves the slot: forks a child for each run. Returns only in such a child, when its box is ready and its orders
 * have come. before_fork and after_fork_parent bracket each fork in the zygote, after_fork_child is the first thing
 * that a child does which will return. Never returns in the zygote itself: when the slot hangs up, it exits.
 */
struct fork_hooks {
    void (*before)(void);
    void (*after_parent)(void);
    void (*after_child)(void);
};
void zygote_serve(const struct fork_hooks *hooks);

/* Called once, when the interpreter is as far as a plain one is before its script: what it holds now is a run's own. */
void zygote_initialised(void);
