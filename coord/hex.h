/* Hexadecimal digits. Pure; any thread. */
#ifndef TOPICFS_HEX_H
#define TOPICFS_HEX_H

/* What a digit stands for, upper case or lower; -1: it is none. */
int hex_digit(char c);

#endif
