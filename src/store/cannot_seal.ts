/** Why no checkpoint can be signed. Apart, because each command knows this error, and few load what signs. */
export class CannotSeal extends Error {}

/** It will be, once the witnesses were asked, and nothing keeps this process from asking them. */
export class NotYet extends CannotSeal {}
