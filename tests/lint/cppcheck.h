/*
 * For cppcheck only, which does not search system headers: the loops of utlist, uthash
 * and cJSON as plain ones.
 */
#define DL_FOREACH(head, el) for (el = head; el; el = el->next)
#define LL_FOREACH(head, el) for (el = head; el; el = el->next)
#define DL_FOREACH_SAFE(head, el, tmp)                                                 \
    for (el = head; el && (tmp = el->next, 1); el = tmp)
#define LL_FOREACH_SAFE(head, el, tmp)                                                 \
    for (el = head; el && (tmp = el->next, 1); el = tmp)
#define HASH_ITER(hh, head, el, tmp)                                                   \
    for (el = head, tmp = el ? el->hh.next : 0; el;                                    \
         el = tmp, tmp = tmp ? tmp->hh.next : 0)
#define cJSON_ArrayForEach(el, array)                                                  \
    for (el = (array) ? (array)->child : 0; el; el = el->next)
