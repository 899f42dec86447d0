/* Removes a directory that a hostile program may have filled. */
#ifndef RUNLEDGER_REMOVE_TREE_H
#define RUNLEDGER_REMOVE_TREE_H

/* Removes `name` in `directory` with everything in it. Links are removed and never followed. */
void remove_tree(int directory, const char *name);

#endif
