/* Removes a directory that a hostile program may have filled. */
#ifndef RUNLEDGER_REMOVE_TREE_H
#define RUNLEDGER_REMOVE_TREE_H

/*
 * Removes `name` in `directory` with everything in it. Links are removed and never followed. It needs six descriptors at most,
 * however deep the tree is: it moves what is deep up to the top, which costs a rename for each directory.
 */
void remove_tree(int directory, const char *name);

#endif
