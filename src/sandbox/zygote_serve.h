/* The zygote's half of the protocol with its slot, as the preloaded interpreter code calls it. */
#ifndef RUNLEDGER_ZYGOTE_SERVE_H
#define RUNLEDGER_ZYGOTE_SERVE_H

/* The interpreter's own work around a fork. */
struct fork_hooks {
  void (*before)(void);       /* in the zygote, before each fork */
  void (*after_parent)(void); /* in the zygote, after it */
  void (*after_child)(void);  /* in the child that becomes the program, before anything else */
};

/*
 * Serves the slot: forks a child ahead of each run. Returns only in such a child, once its box is
 * ready and its orders have come. In the zygote it never returns: it exits when the slot closes the
 * socket.
 */
void zygote_serve(const struct fork_hooks *hooks);

/* To be called once, when the interpreter has initialised itself: a plain run would use as much memory as it does now. */
void zygote_initialised(void);

#endif
