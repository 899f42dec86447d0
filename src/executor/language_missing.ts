/**
 * A worker has the toolchains of its machine, and gets a job by the language of the submission. Only from the order does it learn
 * that the checker or interactor, which may be that of a stored test set, is in another one. That says nothing about the program:
 * another worker may have both.
 */
export class LanguageMissing extends Error {
  readonly language: string;

  constructor(role: 'checker' | 'interactor', language: string) {
    super(`the ${role} is written in ${language}, which this worker does not have`);
    this.name = 'LanguageMissing';
    this.language = language;
  }
}
